"""Counterfactuals: what is simulated again, what is kept, and that the values add up."""

import math
import tomllib

import numpy as np
import pytest
import torch

import fedfleet
from fedfleet.app.runs import counterfactuals, perform
from fedfleet.app.runs.causes import CAUSES, without_causes
from fedfleet.app.runs.counterfactuals import Outcome, build_answer, counterfactual_answer
from fedfleet.app.runs.folder_seals import verify_run
from fedfleet.app.spec import apply_overrides, resolve
from fedfleet.core.errors import BadInput
from fedfleet.measure.shapley import subsets
from fedfleet.store import journal as journals
from tests.app.runs.owned import SPEC, Net
from tests.app.specs import TINY
from tests.app.users import SPEC as USERS

pytestmark = pytest.mark.slow

PLAIN = TINY.replace("dirichlet", "iid").replace(", alpha = 0.5", "").replace("spread", "homogeneous")
SEVERE = (
    'world.devices={use="dpgmm", sigma=2.0}', 'world.states={use="daily", ready=0.2}', "world.model_bytes=20000000",
    "world.clients=30", "world.data=iid", 'pace={use="deadline", cohort=5, seconds=60}', "stop.rounds=8",
)  # fmt: skip


def made(folder, text=TINY, *words):
    perform(resolve(apply_overrides(tomllib.loads(text), ["run.checkpoint_every=99", *words])), folder)
    return folder


def adds_up(result):
    first, last = result["counterfactuals"][0], result["counterfactuals"][-1]
    for figure in ("time_to_accuracy", "accuracy"):
        whole = math.fsum(value[figure] for value in result["shapley"].values())
        assert whole == pytest.approx(last[figure] - first[figure], rel=1e-12, abs=1e-12)


def test_a_severe_fleet_end_to_end_in_two_processes(tmp_path):
    out = made(tmp_path / "run", TINY, *SEVERE)
    said = []
    result = counterfactual_answer(out, workers=2, tell=said.append)
    assert result["present"] == ["links", "computing", "reachability"]
    assert (result["runs"], result["cached"], len(result["counterfactuals"])) == (7, 0, 8)
    assert "7 re-simulations" in said[0] and "s, the time of the run itself" in said[0]  # the cost, beforehand
    assert len(said) == 8
    adds_up(result)
    assert result["shapley"]["faults"] == {"time_to_accuracy": 0.0, "accuracy": 0.0}
    ideal = result["counterfactuals"][-1]
    assert ideal["time_to_accuracy"] < result["counterfactuals"][0]["time_to_accuracy"]
    assert result["sentence"].startswith("Without unequal links, unequal computing and absences the run would have")
    again = counterfactual_answer(out, tell=said.append)
    assert (again["cached"], "7 of which are kept" in said[8]) == (7, True)
    assert {**again, "cached": 0} == result
    assert "journal" in verify_run(out)["verified"]  # what lies inside has seals of its own


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return made(tmp_path_factory.mktemp("tiny") / "run")


def test_a_counterfactual_is_the_run_of_a_spec(tiny, tmp_path):
    result = counterfactual_answer(tiny, tell=str)
    spec = without_causes(resolve(tomllib.loads((tiny / "spec.toml").read_text())), ["links", "data"])
    done = perform(spec, tmp_path / "by-hand")
    kept = tiny / "counterfactuals" / spec.digest[:16]
    assert journals.digest_of(kept / "run.db") == done.metrics["digest"]
    row = next(r for r in result["counterfactuals"] if r["without"] == ["links", "data"])
    assert (row["virtual_seconds"], row["accuracy"]) == (done.metrics["virtual_seconds"], done.metrics["accuracy"])


def test_where_the_target_is_not_reached_the_horizon_counts_and_is_marked(tiny):
    result = counterfactual_answer(tiny, target=1.0, tell=str)
    rows = result["counterfactuals"]
    assert all(r["censored"] and r["time_to_accuracy"] == result["horizon"] for r in rows)
    assert result["horizon"] == max(r["virtual_seconds"] for r in rows)
    assert all(value["time_to_accuracy"] == 0.0 for value in result["shapley"].values())
    assert "would not have reached 100.0 % within" in result["sentence"]


def test_some_reach_the_target_and_some_do_not():
    outcomes = {
        frozenset(): Outcome(100.0, None, 0.5), frozenset({"links"}): Outcome(40.0, 30.0, 0.7),
        frozenset({"data"}): Outcome(60.0, None, 0.6), frozenset({"links", "data"}): Outcome(50.0, 10.0, 0.9),
    }  # fmt: skip
    result = build_answer(("links", "data"), outcomes, 0.7)
    assert [r["time_to_accuracy"] for r in result["counterfactuals"]] == [100.0, 30.0, 100.0, 10.0]
    assert [r["censored"] for r in result["counterfactuals"]] == [True, False, True, False]
    assert result["shapley"]["links"]["time_to_accuracy"] == -80.0  # the mean of 30 - 100 and 10 - 100
    assert result["shapley"]["data"]["time_to_accuracy"] == -10.0
    assert result["sentence"] == (
        "Without unequal links and unlike data the run would have reached 70.0 % after 10 s, and really did not within 1.7 min: "
        "unequal links cost 80 s, unlike data cost 10 s; its last model would have had 90.0 %, and has 50.0 %."
    )
    adds_up(result)


def test_all_five_causes_take_31_runs_and_absent_ones_none(tmp_path, monkeypatch):
    asked = []

    def pretended(work, pieces, workers):
        asked.append([piece.removed for piece in pieces])
        return ((piece, Outcome(100.0 - 7 * len(piece.removed), 50.0 / (1 + len(piece.removed)), 0.5)) for piece in pieces)

    monkeypatch.setattr(counterfactuals, "map_in_processes", pretended)
    monkeypatch.setattr(counterfactuals, "present_causes", lambda spec: CAUSES)
    out = made(tmp_path / "run", PLAIN)
    result = counterfactual_answer(out, tell=str)
    assert len(asked[0]) == result["runs"] == 31
    assert {frozenset(removed) for removed in asked[0]} == {*subsets(CAUSES)} - {frozenset()}
    assert len({r["time_to_accuracy"] for r in result["counterfactuals"][1:]}) == 5
    adds_up(result)


def test_a_fleet_without_causes_needs_no_run(tmp_path):
    out, said = made(tmp_path / "run", PLAIN), []
    result = counterfactual_answer(out, tell=said.append)
    assert (said, result["runs"], len(result["counterfactuals"])) == ([], 0, 1)
    assert all(value == {"time_to_accuracy": 0.0, "accuracy": 0.0} for value in result["shapley"].values())
    assert result["sentence"].startswith("Nothing can be removed")
    assert not (out / "counterfactuals").exists()


def test_an_interrupted_explanation_goes_on(tmp_path, monkeypatch):
    out, real, begun = made(tmp_path / "run"), counterfactuals.simulate_again, []

    def interrupted(piece):
        begun.append(piece.removed)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return real(piece)

    monkeypatch.setattr(counterfactuals, "simulate_again", interrupted)
    with pytest.raises(KeyboardInterrupt):
        counterfactual_answer(out, cache=tmp_path / "kept", tell=str)
    monkeypatch.setattr(counterfactuals, "simulate_again", real)
    result = counterfactual_answer(out, cache=tmp_path / "kept", tell=str)
    assert (result["runs"], result["cached"]) == (7, 2)
    assert len(list((tmp_path / "kept").iterdir())) == 7


def test_devices_behind_edges_are_equalled_too(tmp_path):
    out = made(tmp_path / "run", USERS, "world.data=iid", "world.users.mu=1000000.0", "world.clients=8", "stop.rounds=1")
    result = counterfactual_answer(out, tell=str)
    assert result["present"] == ["links", "computing"]
    seconds = [r["virtual_seconds"] for r in result["counterfactuals"]]
    assert seconds[-1] < seconds[0] and len(set(seconds)) == 4
    adds_up(result)


def test_the_target_is_the_specs_own_or_near_the_best(tmp_path, tiny):
    best = fedfleet.load(tiny).rounds["accuracy"]
    assert counterfactual_answer(tiny, tell=str)["target"] == pytest.approx(0.95 * np.nanmax(best))
    out = made(tmp_path / "run", PLAIN, "stop.target_accuracy=0.3")
    assert counterfactual_answer(out, tell=str)["target"] == 0.3


def owned(out, model):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 5)).astype(np.float32)
    fedfleet.run(SPEC, model=model, data=(x, (x.sum(1) > 0).astype(np.int64)), out=out)
    return out


def test_own_models_of_plain_layers_are_trained_again(tmp_path):
    result = counterfactual_answer(owned(tmp_path / "run", torch.nn.Linear(5, 2)), tell=str)
    assert result["present"] == ["links", "computing"] and result["runs"] == 3
    adds_up(result)


@pytest.mark.parametrize(("model", "mention"), [(Net, "--trust-code"), (lambda: Net(3), "trust|Python")])
def test_own_code_is_not_run_unasked(tmp_path, model, mention):
    with pytest.raises(BadInput, match=f"--counterfactuals train the run's own model again, but .*({mention})"):
        counterfactual_answer(owned(tmp_path / "run", model), tell=str)


def test_what_has_no_fleet_is_refused(tmp_path, monkeypatch, tiny):
    out = made(tmp_path / "run", PLAIN, "algorithm=centralized")
    with pytest.raises(BadInput, match="trains in one place"):
        counterfactual_answer(out, tell=str)
    monkeypatch.setattr(counterfactuals, "kind_of", lambda begun: "served")
    with pytest.raises(BadInput, match="served over a network"):
        counterfactual_answer(tiny, tell=str)


def test_a_run_that_cannot_be_made_says_which(tmp_path, tiny):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="name another one with --cache"):
        counterfactual_answer(tiny, cache=tmp_path / "file", tell=str)
    place = tmp_path / "kept"
    spec = without_causes(resolve(tomllib.loads((tiny / "spec.toml").read_text())), ["links"])
    (place / spec.digest[:16]).mkdir(parents=True)
    (place / spec.digest[:16] / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match=r"the run without unequal links: .*is not a run"):
        counterfactual_answer(tiny, cache=place, tell=str)
