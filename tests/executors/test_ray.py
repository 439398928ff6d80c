"""Ray: the bits of inline with any number of workers, whatever dies, and nothing left behind.

Ray itself is imported only after the executor prepared its environment, as in a user's program.
"""

import os
import shutil
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fedfleet
from fedfleet.app.assemble import assemble, open_executor
from fedfleet.app.cli import main
from fedfleet.app.runs import read_finished_run
from fedfleet.app.spec import resolve
from fedfleet.app.studies.grid.run_study import study
from fedfleet.app.studies.grid.study_jobs import WorkerSettings
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.parts import Offer, Trial
from fedfleet.core.registry import names
from fedfleet.executors import ray as ours
from fedfleet.executors import ray_cluster
from fedfleet.executors.inline import inline
from fedfleet.executors.worker_jobs import Recipe
from fedfleet.simulation.simulator import simulate
from fedfleet.store import journal as journals
from fedfleet.testing import check_executor
from fedfleet.testing.passes import SINGLES, cases
from fedfleet.testing.toys import opaque_executor
from tests.app.specs import written
from tests.executors.kits import beginners, dies_once, misled
from tests.executors.test_worker_jobs import same, toy_jobs
from tests.portions import in_soak
from tests.testing.models import TASKS
from tests.testing.registered import fitting_task

pytestmark = pytest.mark.slow

SPEC = {
    "seed": 5,
    "task": "digits_logreg",
    "world": {"clients": 12, "devices": {"use": "spread"}, "data": {"use": "dirichlet"}},
    "algorithm": {"use": "fedprox", "mu": 0.1},
    "pace": {"use": "readiness", "cohort": 8},
    "stop": {"rounds": 3},
    "override": [{"clients": [1, 4], "algorithm": {"lr": 0.02}}],
}
# As /proc/net writes them: 127.0.0.1, the same as IPv6, ::1.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


class Shared:
    """One local cluster for the tests of this process, open while someone needs it."""

    cluster: ours.Cluster | None = None


@pytest.fixture(scope="module", autouse=True)
def _ends():
    yield
    close_shared()


@pytest.fixture
def shared():
    """An open local cluster with two workers."""
    if Shared.cluster is None:
        Shared.cluster = ours.connect(2, None, 1)
    return Shared.cluster


@pytest.fixture
def alone():
    """No open cluster."""
    close_shared()


def close_shared():
    if Shared.cluster is not None:
        Shared.cluster.close()
        Shared.cluster = None


@pytest.fixture(scope="module")
def straight():
    """The digest of the run inline."""
    return fedfleet.run(SPEC, "run.execute=inline").metrics["digest"]


def test_codecs_and_what_they_lost_give_the_digest_of_inline(shared):
    coded = {"use": "fedavg", "up": ["int4", "gzip"], "down": ["int8"], "feedback": True}
    spec = {**SPEC, "algorithm": coded, "stop": {"rounds": 2}}
    inside, there = (fedfleet.run(spec, f"run.execute={name}").metrics["digest"] for name in ("inline", "ray"))
    assert inside == there


def test_seeds_apart_looks_and_an_own_test_set_give_the_digest_of_inline(shared):
    stop = {"rounds": 2, "evaluate_attempts": 1, "evaluate_seconds": 7.0}
    spec = {
        **SPEC,
        "seeds": {"fleet": 1, "data": 2},
        "world": {**SPEC["world"], "holdout": 100, "charge": 1},
        "stop": stop,
    }
    inside, there = (fedfleet.run(spec, f"run.execute={name}").metrics for name in ("inline", "ray"))
    assert inside["digest"] == there["digest"] and inside["confusion"] == there["confusion"]
    assert len(there["curve"]["seconds"]) > 6 and sum(map(sum, there["confusion"])) == 100


def test_what_clients_draw_gives_the_digest_of_inline(shared):
    energy = {"use": "carbon", "energy": {"use": "phones", "link": "4g"}, "swing": 90.0}
    spec = {**SPEC, "world": {**SPEC["world"], "energy": energy}, "stop": {"rounds": 2}}
    inside, there = (fedfleet.run(spec, f"run.execute={name}").metrics for name in ("inline", "ray"))
    assert inside["digest"] == there["digest"] and inside["energy"] == there["energy"]
    assert inside["energy"]["joules"] > 0 and inside["energy"]["grams"] > 0


def below(pid):
    """All processes that descend from this one."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    result = [pid]
    for parent in result:
        result += [child for child, its in parents.items() if its == parent]
    return set(result) - {pid}


def listening(pids):
    """The addresses at which these processes listen."""
    sockets = set()
    for pid in pids:
        for path in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(os.readlink(path).removeprefix("socket:[").removesuffix("]"))
            except OSError:
                continue
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {words[1].partition(":")[0] for words in lines if words[3] == "0A" and words[9] in sockets}


def test_one_worker_gives_the_digest_of_inline_keeps_to_this_machine_and_leaves_nothing(alone, straight):
    home, before = Path.home() / ".ray", below(os.getpid())
    had, folders = home.exists(), set(Path("/tmp").glob("fedfleet-*/ray-*"))
    setup, journal = assemble(resolve({**SPEC, "run": {"execute": "ray", "workers": 1}})), journals.memory_journal()
    with open_executor(setup) as execute:
        simulate(setup.plan, setup.world, execute, journal=journal)
        started = below(os.getpid()) - before
        # Other programs on this machine may begin a cluster at the same time: ours is the one that our processes name.
        said = b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in started if Path(f"/proc/{pid}").exists())
        (folder,) = {ray.parent for ray in set(Path("/tmp").glob("fedfleet-*/ray-*")) - folders if bytes(ray.parent) in said}
        assert folder.stat().st_mode & 0o077 == 0
        assert listening({*started, os.getpid()}) <= LOOPBACK
    assert journal.digest == straight
    execute.close()  # a second time does no harm
    assert not folder.exists()
    assert home.exists() == had
    until = time.monotonic() + 60
    while (left := {pid for pid in started if Path(f"/proc/{pid}").exists()}) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left


@pytest.mark.soak
def test_four_workers_give_the_digest_of_inline(alone, straight):
    assert fedfleet.run(SPEC, "run.execute=ray", "run.workers=4").metrics["digest"] == straight


def test_two_workers_give_the_digest_of_inline(shared, straight):
    assert fedfleet.run(SPEC, "run.execute=ray", "run.workers=2").metrics["digest"] == straight


def test_workers_may_stack_their_chunks(shared):
    words = ("run.execute=ray", "run.ray_execute=stacked", "run.workers=2")
    runs = [fedfleet.run(SPEC, *words).metrics for _ in range(2)]
    assert runs[0]["digest"] == runs[1]["digest"]
    plain = fedfleet.run(SPEC).metrics
    assert runs[0]["accuracy"] == pytest.approx(plain["accuracy"], abs=0.02)
    assert runs[0]["virtual_seconds"] == plain["virtual_seconds"]


# What remembers, keeps layers at home, or sends two models or slices, and every fourth of the others; the soak takes all.
TOLD_APART = {"fedavg", "ditto", "fedkd", "fedrep", "heterofl", "scaffold", "biasprompt_plus"}
SAMPLE = [name if name in TOLD_APART or i % 4 == 0 else in_soak(name) for i, name in enumerate(names("algorithms"))]


@pytest.mark.parametrize("name", SAMPLE)
def test_every_registered_algorithm_has_the_bits_of_inline(name, shared):
    spec = {**SPEC, "algorithm": name, "stop": {"rounds": 2}, "override": [], "task": fitting_task(name)}
    digests = [fedfleet.run(spec, f"run.execute={how}").metrics["digest"] for how in ("inline", "ray")]
    assert digests[0] == digests[1]


def test_a_killed_worker_changes_nothing(shared, straight, tmp_path, capsys):
    setup, ray = assemble(resolve(SPEC)), shared.ray
    known = set()
    while len(known) < 2:  # a worker that is still starting answers later
        known.update(ray.get([ray.remote(_process).remote() for _ in range(4)]))
    recipe = misled(resolve(SPEC).toml(), marks=tmp_path, holds=13)  # a task in the middle of the second round
    execute = ours.ray_executor(recipe, setup.executor(), workers=2)
    killed = set()

    def train(jobs):
        for report in execute.train(jobs):
            if report.task == 8:  # the first of that round has come back
                while not beginners(tmp_path, 13):
                    time.sleep(0.01)
                killed.update(beginners(tmp_path, 13))
                os.kill(next(iter(killed)), signal.SIGKILL)
            yield report

    journal = journals.memory_journal()
    simulate(setup.plan, setup.world, replace(execute, train=train), journal=journal)
    assert journal.digest == straight
    assert len(killed) == 1 and killed < known
    assert beginners(tmp_path, 13) > killed, "it was begun again elsewhere"
    assert capsys.readouterr().out == "", "Ray keeps its remarks to itself"
    execute.close()
    assert ray.is_initialized(), "a connection that was open before stays open"


def _process():
    time.sleep(0.2)  # so that one worker cannot answer all
    return os.getpid()


def test_reports_come_in_order_and_what_was_offered_is_stored_once(shared, monkeypatch):
    stored = []
    put = shared.ray.put
    monkeypatch.setattr(shared.ray, "put", lambda tree: stored.append(tree) or put(tree))
    models = [{"w": np.full(4, v, np.float32)} for v in (0.25, 0.5)]
    # Every client is offered a dictionary of its own, with the arrays of one of two models.
    jobs = [replace(job, offer=Offer(dict(models[job.client % 2]))) for job in toy_jobs(40)]
    execute = ours.ray_executor(misled(pauses={"0": 0.5}), opaque_executor(), workers=2)
    reports = list(execute.train(jobs))
    assert len(stored) == 2
    for result, wanted in zip(reports, opaque_executor().train(jobs), strict=True):
        same(result, wanted)
        assert all(leaf.flags.writeable and leaf.flags.owndata for leaf in result.update.values())
    assert list(execute.train([])) == []


def test_reports_stream_while_others_train(shared):
    execute = ours.ray_executor(misled(pauses={"7": 600.0}), opaque_executor(), workers=2)
    start = time.monotonic()
    stream = iter(execute.train(toy_jobs(8)))
    assert [next(stream).client for _ in range(7)] == list(range(7))
    stream.close()
    assert time.monotonic() - start < 300
    del stream


def test_evaluations_are_those_of_inline(shared):
    setup = assemble(resolve(SPEC))
    params, other = setup.task.init(1), setup.task.init(2)
    trials = [Trial(other if c % 3 else params, setup.world.data.shard(c, "train", 0)) for c in range(12)]
    here = setup.executor()
    execute = ours.ray_executor(Recipe("fedfleet.app.assemble:rebuild_for_worker", resolve(SPEC).toml()), here, workers=2)
    assert list(execute.evaluate(trials)) == list(here.evaluate(trials))
    assert list(execute.evaluate(trials[:1])) == list(here.evaluate(trials[:1]))


def test_a_job_that_raises_is_named(shared):
    execute = ours.ray_executor(misled(raises=3), opaque_executor(), workers=2)
    with pytest.raises(RunFailed, match="client 3, task 13: KeyError: 'out of luck'") as failed:
        list(execute.train(toy_jobs(8)))
    assert "on the worker" in failed.value.__notes__[0]


def test_a_job_that_kills_its_workers_is_named(shared, monkeypatch):
    monkeypatch.setattr(ours, "RETRIES", 1)
    execute = ours.ray_executor(misled(dies=3), opaque_executor(), workers=1)
    with pytest.raises(RunFailed, match="client 3, task 13: its Ray worker died 2 times"):
        list(execute.train(toy_jobs(8)))


def test_a_spec_that_workers_cannot_rebuild_is_said(shared):
    execute = ours.ray_executor(Recipe("nowhere:kit", ""), opaque_executor(), workers=2)
    with pytest.raises(RunFailed, match=r"could not rebuild the spec.*nowhere"):
        list(execute.train(toy_jobs(1)))


def test_where_ray_is_missing_the_extra_is_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BadInput, match=r"fedfleet\[ray\]"):
        ours.connect(1, None, 1)
    refused(monkeypatch, tmp_path, "run.execute=ray")
    assert "fedfleet[ray]" in capsys.readouterr().err


def test_an_address_at_which_nobody_answers_is_refused(monkeypatch, capsys, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    refused(monkeypatch, tmp_path, "--ray-address", f"127.0.0.1:{free}")
    assert "no server answers there" in capsys.readouterr().err


def refused(monkeypatch, folder, *words):
    """Such a run is refused at once, and leaves no folder."""
    line = ["fedfleet", "run", written(folder), *words, "--out", folder / "out"]
    monkeypatch.setattr(sys, "argv", [str(word) for word in line])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    assert not (folder / "out").exists()


def test_a_study_whose_worker_is_killed_has_the_tables_of_one_process(shared, tmp_path):
    base = {**SPEC, "run": {"execute": "stacked", "checkpoint_every": 1}}
    table = {"base": base, "seeds": 3, "grid": {"algorithm.mu": [0.0, 0.1]}}
    here, there = tmp_path / "here", tmp_path / "there"
    study(table, here, worker_settings=WorkerSettings(1))
    there.mkdir()
    shutil.copy(here / "forms.json", there)  # which form is fastest is measured
    result = study(table, there, worker_settings=WorkerSettings(0, ray=True, work=dies_once))
    assert (there / "runs" / "killed").exists() and not result.failed and len(result.cells) == 6
    for name in ("results.csv", "results.md", "runs.csv", "study.json"):
        assert (there / name).read_bytes() == (here / name).read_bytes()
    digests = [[read_finished_run(out).metrics["digest"] for out in sorted(o.glob("runs/*-*"))] for o in (here, there)]
    assert len(set(digests[0])) == 6 and digests[0] == digests[1]


def test_no_task_asks_for_more_processors_than_a_machine_has(shared):
    assert (ours.connect(1, None, 1).task_cpus, ours.connect(1, None, 64).task_cpus) == (1, 2)


def test_a_cluster_on_the_loopback_device_is_not_sought_in_the_network():
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"127.0.0.1:{server.getsockname()[1]}"
        away = SimpleNamespace(util=SimpleNamespace(get_node_ip_address=lambda: "127.0.0.2"))
        with pytest.raises(BadInput, match=r"loopback device only.*127\.0\.0\.2; set RAY_"):
            ray_cluster._check_loopback(away, there)
        same = SimpleNamespace(util=SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1"))
        ray_cluster._check_loopback(same, there)


def test_an_own_model_is_refused():
    import torch

    data = (np.zeros((40, 5), np.float32), np.arange(40) % 2)
    with pytest.raises(BadInput, match="own model"):
        fedfleet.run({"run": {"execute": "ray"}}, model=torch.nn.Linear(5, 2), data=data)


def test_every_kind_of_pass_has_the_bits_of_inline_on_workers(shared):
    task = TASKS["dense"]()
    execute = ours.ray_executor(misled(matrix="dense"), inline(task), workers=2)
    try:
        some = [case for i, case in enumerate(cases(task)) if i % 6 == 0 or case.name in SINGLES]
        assert check_executor(execute, task, same_bits=True, only=some).cells == len(some)
    finally:
        if execute.close is not None:
            execute.close()
