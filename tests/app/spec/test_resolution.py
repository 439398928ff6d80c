"""Resolving a spec: every default, and refusals that name the cure."""

import tomllib

import pytest

from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput


def test_an_empty_spec_has_every_default():
    spec = resolve({})
    assert spec.world["devices"]["use"] == "homogeneous"
    assert spec.world["states"]["use"] == "always_on"
    assert (spec.choose["use"], spec.pace["use"], spec.algorithm["use"]) == ("uniform", "readiness", "fedavg")
    assert spec.run["execute"] == "auto"
    assert spec.stop["rounds"] == 100


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"algorithm": {"use": "fedavgg"}}, "did you mean 'fedavg'"),
        ({"pace": {"cohrt": 5}}, "did you mean 'cohort'"),
        ({"wrld": {}}, "did you mean 'world'"),
        ({"world": {"devces": {}}}, "did you mean 'devices'"),
        ({"pace": {"use": "deadline", "seconds": -1.0}}, "pace.seconds = -1.0.*greater than 0"),
        ({"pace": {"cohort": "five"}}, "pace.cohort = 'five'.*integer"),
        ({"pace": {"cohort": True}}, "integer"),
        ({"pace": {"cohort": 2.5}}, "integer"),
        ({"pace": {"use": "overcommit"}}, "needs the key 'policy'"),
        ({"pace": {"use": "overcommit", "policy": 3}}, "not a table"),
        ({"algorithm": 3}, "algorithm: 3 is not a table"),
        ({"algorithm": {"optimiser": "sdg"}}, "'sgd', 'adam' or 'adamw'"),
        ({"stop": {"virtual_seconds": float("inf")}}, "at most 1,000,000,000,000"),
        ({"stop": {"patience": 0}}, "at least 1"),
        ({"seed": -1}, "seed = -1"),
        ({"seed": "x"}, "seed = 'x'"),
        ({"world": {"split": [6, 2]}}, "three numbers"),
        ({"override": {"clients": [1]}}, "two brackets"),
        ({"override": [{"algorithm": {"lr": 0.1}}]}, "does not say to which clients it applies"),
        ({"override": [{"clients": [1]}]}, "changes nothing"),
        ({"override": [{"clients": [1], "algorithm": {"lrr": 0.1}}]}, "did you mean 'lr'"),
        ({"override": [{"clients": [1], "algorithm": {"use": "fedprox"}}]}, "not the algorithm itself"),
        ({"run": {"execute": "stakced"}}, "run.execute"),
        ({"edge": "hierfl"}, "world.users"),
        ({"world": {"users": {}}}, "world.users: choose the part"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(table, says):
    with pytest.raises(BadInput, match=says) as refused:
        resolve(table)
    assert "\n" not in str(refused.value)


def test_an_own_task_is_named_by_its_content():
    spec = resolve({}, content_id="abc")
    assert spec.task == {"use": "own", "content": "abc"}
    assert spec.digest != resolve({}, content_id="abd").digest


def test_the_task_of_an_own_model_stays_as_it_is():
    own = {"use": "own", "content": "abc", "loss": "focal"}
    spec = resolve({"task": own})
    assert spec.task == own
    assert resolve(tomllib.loads(spec.toml())).digest == spec.digest
    assert resolve({"task": {"use": "own", "content": "abc"}}).digest != spec.digest
    for wrong in ({**own, "content": ""}, {**own, "content": 3}, {**own, "more": 1}):
        with pytest.raises(BadInput, match="task"):
            resolve({"task": wrong})
