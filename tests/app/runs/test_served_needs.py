"""What studies need of a run, over a real network: the keys mean what they mean in a simulation, and the model has its bytes."""

import copy

import pytest

from fedfleet.app.runs import perform
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.spec import resolve
from fedfleet.core.events import Evaluated, ModelCommitted, RoundFailed, TasksSent
from tests.app.runs.test_served_run import served

pytestmark = pytest.mark.slow

CLIENTS = 3
BASE = {
    "seed": 7,
    "task": {"use": "harbox_mlp", "synthetic": True, "samples": 400, "hidden": 4, "test_users": 0},
    "world": {"clients": CLIENTS, "data": {"use": "by_owner", "merge_owners": True}},
    "pace": {"use": "readiness", "cohort": 2, "t_break": 0.05},
    "stop": {"rounds": 3},
    "run": {"execute": "inline"},
}
KEYS = {
    "seeds": {"seeds": {"fleet": 3, "data": 4, "training": 5}},
    "by attempts": {"stop": {"evaluate_every": 3, "evaluate_attempts": 2}},
    "by seconds": {"stop": {"evaluate_every": 3, "evaluate_seconds": 0.04}},
    "holdout": {"world": {"holdout": 90}},
    "unseen": {"world": {"unseen": 0.2}},
    "charge": {"world": {"charge": 1}},
    "caps": {"world": {"devices": {"use": "spread", "most_link": 13.0, "most_compute": 4.0}}},
}


def spec_of(*names):
    table = copy.deepcopy(BASE)
    for name in names:
        for part, values in KEYS[name].items():
            table.setdefault(part, {}).update(values)
    return resolve(table)


def served_as_simulated(folder, *names):
    """A served run and its simulation, which end with the same model, the same scores of it and a journal that replays."""
    spec = spec_of(*names)
    (folder / "spec.toml").write_text(spec.toml())
    done = served(folder / "spec.toml", folder, CLIENTS)[0]
    simulated = perform(spec, folder / "simulated")
    assert (done.out / "model.safetensors").read_bytes() == (simulated.out / "model.safetensors").read_bytes()
    for key in (
        "accuracy",
        "accuracy_clients",
        "accuracy_unseen",
        "accuracy_never",
        "classes",
        "confusion",
        "bytes_up",
    ):
        assert done.metrics[key] == simulated.metrics[key], key
    assert _by_model(done) == _by_model(simulated) and _work(done) == _work(simulated)
    assert {"decisions", "models", "scores", "metrics.json"} <= set(replay_run(done.out)["verified"])
    return done


def _by_model(done):
    """What each model that was looked at got right, of the central test set and of people who are held out."""
    return {e.version: (e.correct, e.total, e.unseen) for e in done.events if isinstance(e, Evaluated)}


def _work(done):
    return [(e.clients.tolist(), e.samples.tolist()) for e in done.events if isinstance(e, TasksSent)]


def looked_after(done):
    """After how many rounds the model was looked at."""
    over, result = 0, set()
    for event in done.events:
        over += isinstance(event, ModelCommitted | RoundFailed)
        result |= {over} if isinstance(event, Evaluated) else set()
    return result


def test_all_that_studies_need_at_once(tmp_path, capsys):
    done = served_as_simulated(tmp_path, *KEYS)
    assert "world.devices, world.charge describe a simulated fleet" in capsys.readouterr().err
    assert looked_after(done) >= {0, 2, 3}
    held = {e.unseen.total for e in done.events if isinstance(e, Evaluated)}
    assert len(held) == 1 and held.pop() > 0 and {e.total for e in done.events if isinstance(e, Evaluated)} < {*range(60, 91)}
    assert {n for _, samples in _work(done) for n in samples} == {1.0}, "as the simulation charges it"


@pytest.mark.soak
@pytest.mark.parametrize("name", KEYS)
def test_each_of_them_alone(name, tmp_path):
    done = served_as_simulated(tmp_path, name)
    points = [e.time for e in done.events if isinstance(e, Evaluated)]
    match name:
        case "by attempts":
            assert looked_after(done) == {0, 2, 3}
        case "by seconds":
            began = next(e.time for e in done.events if isinstance(e, TasksSent))
            assert len(points) > 4 and [t for t in points if t > began], "looks in the middle of rounds"
        case "holdout":
            assert {e.total for e in done.events if isinstance(e, Evaluated)} == {90}
        case _:
            assert looked_after(done) == {0, 1, 2, 3}
