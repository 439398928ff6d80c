"""Sheets: what a client is told, and that it trains the very bits of a simulation with it."""

import json

import numpy as np
import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.client_config import client_config_for, shard_bytes
from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.app.spec import resolve
from fedfleet.core import registry
from fedfleet.core.aggregation import finish
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.parts import Job, Trial
from fedfleet.core.passes import LocalPass
from fedfleet.core.records import Context, Cost, Wave, whole_work
from fedfleet.core.registry import names
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.core.trees import mismatch
from fedfleet.executors.gather import fold_reports, jobs_for, model_of, models_of
from fedfleet.executors.inline import inline
from fedfleet.learn.codecs.messages import decode_bytes
from fedfleet.network.device.client_runtime import Assignment, evaluate_model, probe_model, train_task
from fedfleet.network.protocol.frames import offer_to_bytes
from fedfleet.store.client_memory import ClientMemory
from tests.testing.registered import fitting_task

pytestmark = pytest.mark.slow

CLIENT = 2


def made(algorithm="fedavg", task=None, world=None, override=(), **settings):
    table = {
        "seed": 11,
        "task": task or fitting_task(algorithm),
        "algorithm": {"use": algorithm, **settings},
        "world": {"clients": 6, **(world or {})},
        "pace": {"cohort": 3},
        "stop": {"rounds": 5},
        "override": list(override),
    }
    return assemble(resolve(table))


def same_tree(a, b):
    return a.keys() == b.keys() and all(np.array_equal(np.asarray(a[n]), np.asarray(b[n])) for n in a)


def simulated(setup, tasks=2, client=CLIENT):
    """The jobs and reports of one client's tasks in a row in simulation, each folded before the next is sent."""
    memory, execute, algorithm = ClientMemory(), inline(setup.task), setup.plan.algorithm
    server, asked = algorithm.init(setup.plan.params), whole_work(np.array([client]))
    for version in range(tasks):
        task, nothing = 7 + version, Cost(np.zeros(1), np.zeros(1), np.zeros(1))
        wave = Wave(task, version + 1, version, 0.0, asked, setup.world.keys[[client]], nothing, server)
        memory.lend(wave)
        (job,) = jobs_for(setup.plan, setup.world, memory, [task], [wave])
        (report,) = execute.train([job])
        yield job, report
        done = fold_reports(setup.plan, memory, server, [Context(0, 0.0, client, task=task)], [report], 0.0)
        server = algorithm.apply(server, finish(algorithm.fold, done.aggregate))


CASES = {
    "fedavg": {},
    "fedprox": {"mu": 0.3},
    "scaffold": {},
    "feddyn": {},
    "fedrep": {},
    "fedbuff": {},
    "fedkd": {},
    "ditto": {},
    "heterofl": {},
    "fjord": {},
    "biasprompt": {},
    "int8 both ways": {"up": ["int8"], "down": ["int8"]},
    "int4 with feedback": {"up": ["int4"], "feedback": True},
    "gzip both ways": {"up": ["topk", "gzip"], "down": ["gzip"]},
    "fedrep coded": {"algorithm": "fedrep", "up": ["int8"], "down": ["int8"]},
    "fjord coded": {"algorithm": "fjord", "down": ["int8"]},
    "local privacy": {"private": {"use": "local"}},
    "attackers": {"attack": {"use": "sign_flip", "share": 0.5}},
    "one overridden": {"override": [{"clients": [CLIENT], "algorithm": {"lr": 0.03, "epochs": 3}}]},
    "poisoned": {"world": {"data": {"use": "label_flip", "of": {"use": "iid"}, "share": 0.5}}},
}


def setup_of(case):
    settings = dict(CASES[case])
    return made(settings.pop("algorithm", case if case in names("algorithms") else "fedavg"), **settings)


@pytest.mark.parametrize("case", CASES)
def test_a_sheet_trains_the_very_bits_of_a_simulation(case):
    setup = setup_of(case)
    for client in (CLIENT, 3):
        kit, memory = build_client_runtime(client_config_for(setup, client)), {}
        for job, report in simulated(setup, client=client):
            lesson = Assignment(job.task, job.round, version=job.round - 1)
            mine = train_task(kit, lesson, offer_to_bytes(job.offer), memory)
            half = setup.plan.algorithm.local(client, {})
            up = half.up if isinstance(half, LocalPass) else None
            came = decode_bytes(up, mine.payload, report.update) if up else unpack_tree(mine.payload)
            assert same_tree(came, report.update)
            assert mine.weight == report.weight
            assert mine.stats == report.stats
            assert (mine.memory is None) == (report.memory is None)
            for slot, tree in (report.memory or {}).items():
                assert same_tree(mine.memory[slot], tree), slot
            memory = {**memory, **(mine.memory or {})}


@pytest.mark.parametrize("name", [n for n in names("algorithms") if n not in CASES])
def test_every_algorithm_can_be_told_of(name):
    setup = made(name)
    kit = build_client_runtime(client_config_for(setup, 0))
    job, report = next(simulated(setup, client=0))
    mine = train_task(kit, Assignment(job.task, job.round), offer_to_bytes(job.offer), {})
    assert same_tree(unpack_tree(mine.payload) if mine.payload else {}, report.update)


@pytest.mark.parametrize("name", ["fedavg", "fedrep", "ft", "ditto"])
def test_a_device_is_judged_and_probed_as_in_simulation(name):
    setup = made(name)
    kit, memory, execute = build_client_runtime(client_config_for(setup, CLIENT)), ClientMemory(), inline(setup.task)
    *_, (_, report) = simulated(setup)
    memory.advance(CLIENT, report.memory or {})
    server = setup.plan.algorithm.init(setup.plan.params)
    (model,) = models_of(setup.plan, setup.world, execute, memory, server, [CLIENT])
    data, sent = setup.world.data, pack_tree(server.params)
    (want,) = execute.evaluate([Trial(model, data.shard(CLIENT, "test", 0))])
    assert evaluate_model(kit, Assignment(9), sent, report.memory or {}) == want
    plain = model_of(setup.plan, memory, server.params, CLIENT)
    (want,) = execute.evaluate([Trial(plain, data.shard(CLIENT, "train", 0))])
    assert probe_model(kit, Assignment(9), sent, report.memory or {}) == want


def test_what_reports_hold_is_known_on_both_sides():
    setup = made("scaffold")
    like = setup.plan.algorithm.fold.like(setup.plan.algorithm.init(setup.plan.params))
    assert mismatch(build_client_runtime(client_config_for(setup, 1)).like(), like) is None


def test_a_device_never_builds_a_world(monkeypatch):
    sheet = client_config_for(made(world={"devices": {"use": "spread"}, "states": {"use": "daily"}}), 1)
    built = []
    result = registry.builder

    def watched(kind, name, where=""):
        built.append(kind)
        return result(kind, name, where)

    monkeypatch.setattr("fedfleet.app.spec.table_checks.builder", watched)
    build_client_runtime(sheet)
    assert set(built) == {"tasks", "algorithms"}


def test_a_sheet_tells_nothing_of_the_world_or_of_others():
    setup = made(world={"devices": {"use": "spread"}}, override=[{"clients": [4], "algorithm": {"lr": 0.0123}}])
    said = json.loads(client_config_for(setup, 1))
    assert set(said) == {
        "form", "seed", "data_seed", "clients", "rounds", "byte_scale", "task", "inputs", "frozen", "client", "key", "algorithm",
        "memory_mb", "data", "described",
    }  # fmt: skip
    assert b"0.0123" not in client_config_for(setup, 1) and b"0.0123" in client_config_for(setup, 4)
    mine = {*said["data"]["train"], *said["data"]["test"]}
    others = {int(r) for c in (0, 2, 3, 4, 5) for r in setup.world.data.shard(c, "train", 0)}
    assert not mine & others
    own = json.loads(client_config_for(setup, 1, brings_own=True))
    assert own["data"] == {"use": "own"}


def test_paths_stay_with_the_server(tmp_path):
    from safetensors.numpy import save_file

    task = {"use": "digits_vit", "width": 8, "depth": 2, "heads": 2, "backbone": ""}
    weights = tmp_path / "weights.safetensors"
    first = made("biasprompt", task=task)
    whole = first.task.whole(first.plan.params)
    save_file({n: v + np.float32(0.01) for n, v in whole.items() if v.dtype.kind == "f" and "prompt" not in n}, weights)
    setup = made("biasprompt", task={**task, "backbone": str(weights)})
    sheet = client_config_for(setup, 0)
    assert b"weights" not in sheet and str(tmp_path).encode() not in sheet
    with pytest.raises(BadInput, match="frozen weights on this machine differ"):
        build_client_runtime(sheet)
    with pytest.raises(Refused, match="not those that the configuration names"):
        build_client_runtime(sheet, fetch=lambda name: first.task.frozen)
    kit = build_client_runtime(sheet, fetch=lambda name: setup.task.frozen)
    job, report = next(simulated(setup, client=0))
    mine = train_task(kit, Assignment(job.task), offer_to_bytes(job.offer), {})
    assert same_tree(unpack_tree(mine.payload), report.update)


def test_own_samples_replace_the_shard_and_need_none_of_the_runs_data(tmp_path, monkeypatch):
    setup = made(task={"use": "mlp", "synthetic": True, "samples": 400})
    data = setup.task.dataset
    np.savez(tmp_path / "mine.npz", x=data.x[:50].reshape(50, -1), y=data.y[:50])
    sheet = client_config_for(setup, 1, brings_own=True)
    monkeypatch.setattr("fedfleet.tasks.data_files.Loader.__call__", None)  # whoever asks for the run's data fails
    kit = build_client_runtime(sheet, tmp_path / "mine.npz")
    assert kit.task.dataset.x.shape == (50, *data.x.shape[1:])
    assert (len(kit.train), len(kit.test)) == (40, 10)
    assert sorted([*kit.train, *kit.test]) == list(range(50))
    again = build_client_runtime(sheet, tmp_path / "mine.npz")
    assert np.array_equal(kit.train, again.train)
    server = setup.plan.algorithm.init(setup.plan.params)
    offer = setup.plan.algorithm.offer(server, 1, {})
    got = train_task(kit, Assignment(3), offer_to_bytes(offer), {})
    job = Job(3, 1, kit.key, 11, offer, setup.plan.algorithm.local(1, {}), np.flatnonzero(np.isin(range(50), kit.train)))
    (want,) = inline(kit.task).train([job])
    assert same_tree(unpack_tree(got.payload), want.update)
    assert got.weight == 40.0
    with pytest.raises(BadInput, match="give their path with --data"):
        build_client_runtime(sheet)
    with pytest.raises(BadInput, match="gives this client a shard"):
        build_client_runtime(client_config_for(setup, 1), tmp_path / "mine.npz")


def test_other_data_than_the_runs_are_noticed():
    sheet = json.loads(client_config_for(made(), 1))
    sheet["data"]["check"] ^= 1
    with pytest.raises(BadInput, match=r"the data on this machine differ .*--data"):
        build_client_runtime(json.dumps(sheet).encode())
    sheet["data"]["train"][0] = 10**9
    with pytest.raises(BadInput, match=r"the data on this machine differ .*--data"):
        build_client_runtime(json.dumps(sheet).encode())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda s: b"no json",
        lambda s: b"[" * 100_000,
        lambda s: json.dumps({**s, "form": 99}).encode(),
        lambda s: json.dumps({k: v for k, v in s.items() if k != "seed"}).encode(),
        lambda s: json.dumps({**s, "seed": True}).encode(),
        lambda s: json.dumps({**s, "key": "not hex"}).encode(),
        lambda s: json.dumps({**s, "data": {}}).encode(),
        lambda s: json.dumps({**s, "data": {"use": "shard", "train": "x", "test": []}}).encode(),
        lambda s: json.dumps({**s, "inputs": []}).encode(),
    ],
)
def test_foreign_sheets_are_refused_whatever_is_in_them(spoil):
    with pytest.raises(Refused, match="cannot read the client configuration"):
        build_client_runtime(spoil(json.loads(client_config_for(made(), 1))))


@pytest.mark.parametrize("table", [{"use": "os:system"}, {"use": "fedavg", "lr": "x"}, {"use": "fedavg", "odd": 1}])
def test_names_and_settings_of_a_sheet_are_checked_like_a_spec(table):
    sheet = json.loads(client_config_for(made(), 1))
    with pytest.raises(BadInput, match="algorithm"):
        build_client_runtime(json.dumps({**sheet, "algorithm": table}).encode())


def test_runs_that_no_device_can_be_told_of_are_refused():
    with pytest.raises(BadInput, match="no client 6"):
        client_config_for(made(), 6)


def test_a_device_that_cannot_make_its_shard_gets_the_same_samples():
    """The rows that the configuration names, with the labels that the run has, flipped ones too."""
    flipped = {"data": {"use": "label_flip", "of": {"use": "dirichlet", "alpha": 0.5}, "share": 1.0}}
    for setup in (made(), made(world=flipped)):
        rows = json.loads(client_config_for(setup, CLIENT))["data"]
        samples = unpack_tree(shard_bytes(setup, CLIENT))
        for part in ("train", "test"):
            assert np.array_equal(samples[f"{part}_x"], setup.task.dataset.x[rows[part]])
        assert samples["train_y"].tolist() == rows.get("labels", setup.task.dataset.y[rows["train"]].tolist())
        assert set(samples) == {"train_x", "train_y", "test_x", "test_y"}
