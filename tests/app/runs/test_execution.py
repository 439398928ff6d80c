"""Runs in folders: they repeat, they resume to the same end, and they say how they were computed."""

import shutil
import tomllib

import pytest

from fedfleet.app.api.run import run
from fedfleet.app.runs import perform
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.simulation.checkpoints import restore
from fedfleet.simulation.simulator import simulate
from fedfleet.store import journal as journals
from tests.app.runs.flipping import killed_run
from tests.app.runs.tampering import SPEC as SHORT
from tests.app.runs.tampering import sql
from tests.app.specs import TINY
from tests.app.users import SPEC, Watched, alphas_of, spec_with
from tests.simulation.test_checkpoints import Every
from tests.worlds import commits_at

pytestmark = pytest.mark.slow


def test_the_same_spec_gives_the_same_run_and_another_edge_another(edge_run):
    again = run(tomllib.loads(SPEC))
    assert again.metrics["digest"] == edge_run.metrics["digest"]
    assert run(tomllib.loads(SPEC), "edge.solver=none").metrics["digest"] != edge_run.metrics["digest"]
    assert run(tomllib.loads(SPEC), "seed=6").metrics["digest"] != edge_run.metrics["digest"]


class Stopped(Exception):
    """A run that was killed."""


@pytest.mark.parametrize("after", [3, 17, 31])
def test_a_run_that_was_stopped_resumes_to_the_same_end(edge_run, tmp_path, after):
    left = [after]

    def watch(events):
        left[0] -= len(events)
        if left[0] < 0:
            raise Stopped

    with pytest.raises(Stopped):
        perform(spec_with(), tmp_path / "out", watch=watch)
    resumed = perform(spec_with(), tmp_path / "out", resume=True)
    assert resumed.metrics["digest"] == edge_run.metrics["digest"]
    assert (tmp_path / "out/model.safetensors").read_bytes() == (edge_run.out / "model.safetensors").read_bytes()


def resumed_digests(seen, folder):
    """The digest of a run, and those of all runs that go on from its checkpoints with some tasks still out."""
    journal = journals.create(folder / "run.db")
    simulate(seen.plan, seen.setup.world, seen.execute, journal=journal, keeper=Every(folder, journal))
    journal.close()
    result = []
    for kept in sorted(folder.glob("kept-*")):
        back = restore(kept, seen.plan, seen.setup.world, seen.execute, eager=False)
        sim, position = back.sim, back.position
        again = journals.reopen(folder / "run.db")
        again.truncate(position)
        if sim.state.running:
            simulate(seen.plan, seen.setup.world, seen.execute, journal=again, resume=sim)
            result.append(again.digest)
        again.close()
    return journal.digest, result


@pytest.mark.parametrize("words", [("edge.adaptive=false",), ('edge={ use = "hierfl", kappa1 = 3, kappa2 = 2 }',)])
def test_users_that_are_still_at_work_survive_a_checkpoint(tmp_path, words):
    seen = Watched("stop.rounds=4", *words, pace=commits_at(3, 2))
    digest, result = resumed_digests(seen, tmp_path)
    assert len(result) >= 2 and set(result) == {digest}


def test_users_weighed_against_others_that_are_done_survive_a_checkpoint(tmp_path):
    seen = Watched("stop.rounds=6", "world.clients=24", pace=commits_at(5, 3))
    journal = journals.create(tmp_path / "run.db")
    simulate(seen.plan, seen.setup.world, seen.execute, journal=journal, keeper=Every(tmp_path, journal))
    journal.close()
    before, compared = alphas_of(seen.reports), 0
    for kept in sorted(tmp_path.glob("kept-*")):
        back = restore(kept, seen.plan, seen.setup.world, seen.execute, eager=False)
        sim = back.sim
        assert alphas_of(sim.reports) == {task: before[task] for task in sim.reports}
        compared += len(sim.reports)
    assert compared > 10


def test_a_spec_that_cannot_run_leaves_no_trace(tmp_path):
    spec = resolve({"pace": {"cohort": 101}})
    with pytest.raises(BadInput):
        perform(spec, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_finished_run_is_read_and_not_run_again(tiny_run):
    seen = []
    again = perform(resolve(tomllib.loads(TINY)), tiny_run.out, resume=True, watch=seen.extend)
    assert again.metrics["digest"] == tiny_run.metrics["digest"]
    assert seen == []


def test_a_served_run_is_not_resumed(run_copy):
    (run_copy / "aggregates").mkdir()
    with pytest.raises(BadInput, match="served over a network"):
        perform(resolve(tomllib.loads(TINY)), run_copy, resume=True)


def test_what_the_executor_notes_is_said_and_kept(tmp_path, capsys, monkeypatch):
    from dataclasses import replace

    from fedfleet.app.runs import execution

    def noting(spec):
        setup = assembled(spec)
        made = lambda keep=None: replace(setup.executor(keep), notes=("a note",), warnings=lambda: ["a remark"])  # noqa: E731
        return replace(setup, executor=made)

    assembled = execution.assemble
    monkeypatch.setattr(execution, "assemble", noting)
    done = perform(resolve(tomllib.loads(TINY)), tmp_path / "out")
    assert capsys.readouterr().err == "fedfleet: a note\n"
    assert journals.remarks_of(done.out / "run.db") == ["a note", "a remark"]


LOSSES = {**SHORT, "stop": {"rounds": 30}}


def flipped(path):
    data = bytearray(path.read_bytes())
    data[-3] ^= 16
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGES = {
    "a bit of the newest checkpoint": lambda folder: flipped(max(folder.glob("checkpoint-*"))),
    "a bit of every checkpoint": lambda folder: [flipped(p) for p in folder.glob("checkpoint-*")],
    "the log cut off": lambda folder: cut(folder / "run.db-wal"),
    "the log lost": lambda folder: (folder / "run.db-wal").unlink(),
    "a row changed": sql("UPDATE events SET a = a + 1 WHERE kind = 4"),
    "rows gone": sql("DELETE FROM events WHERE seq > 20"),
    "a checkpoint of another run": lambda folder: shutil.copy(folder.parent / "other" / "newest", max(folder.glob("checkpoint-*"))),
}  # fmt: skip


@pytest.fixture(scope="module")
def killed_and_straight(tmp_path_factory):
    """A folder with a run that was killed, another one that was killed, and the run that nobody killed."""
    root = tmp_path_factory.mktemp("damage")
    straight = perform(resolve(LOSSES), root / "straight")
    other = killed_run({**LOSSES, "seed": 9}, root / "other", 5)
    shutil.copy(max(other.glob("checkpoint-*")), other / "newest")
    killed_run(LOSSES, root / "out", 5)
    return root, straight


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_said_and_a_resumed_run_goes_on_from_before_it(damage, killed_and_straight, tmp_path, capsys):
    root, straight = killed_and_straight
    for name in ("other", "out"):
        shutil.copytree(root / name, tmp_path / name)
    folder = tmp_path / "out"
    DAMAGES[damage](folder)
    again = perform(resolve(LOSSES), folder, resume=True)
    assert again.metrics["digest"] == straight.metrics["digest"]
    assert (folder / "model.safetensors").read_bytes() == (root / "straight/model.safetensors").read_bytes()
    said = capsys.readouterr().err
    if damage != "the log lost":  # then nobody can know that there was more
        assert "the run goes on from" in said
        assert any("the run goes on from" in remark for remark in journals.remarks_of(folder / "run.db"))
    assert replay_run(folder)["ok"]
