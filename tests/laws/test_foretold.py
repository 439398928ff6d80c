"""Every registered algorithm, policy and selector: it is foretold between nothing and everything, with a note where the prediction
sees less than the run does, or refused in one sentence; and on a real clock, where looking takes time, every policy ends."""

import warnings

import pytest

import fedfleet
from fedfleet.app.spec.table_checks import build_part
from fedfleet.core.events import Evaluated, ModelCommitted
from fedfleet.core.parts import Stop
from fedfleet.core.registry import names
from tests.engine.test_looks import on_a_real_clock, only, toy_plan
from tests.laws.test_audits import paced
from tests.laws.test_together_in_stacks import BASE, tables

KEEPS_ITS_OWN = ("ditto", "fedbabu", "fedbn", "fedper", "fedrep", "ft", "local_only")


@pytest.mark.soak
@pytest.mark.parametrize("name", tables())
def test_a_prediction_is_made_or_refused_in_a_sentence(name, tmp_path):
    warnings.simplefilter("ignore")
    spec = {**BASE, **tables()[name], "seed": 3}
    if name == "centralized":
        with pytest.raises(fedfleet.BadInput, match="trains in one place"):
            fedfleet.predict(spec, cache=tmp_path)
        return
    result = fedfleet.predict(spec, cache=tmp_path)
    assert 0.0 <= result.accuracy.low <= result.accuracy.value <= result.accuracy.high <= 1.0
    assert any("keep for themselves" in note for note in result.notes) == (name in KEEPS_ITS_OWN)


@pytest.mark.parametrize("name", names("policies"))
@pytest.mark.parametrize("judging", [0.0, 5.0])
def test_looking_by_the_clock_keeps_no_policy_from_its_end(name, judging):
    policy = build_part("policies", paced(name))
    plan = toy_plan(policy, 12, stop=Stop(rounds=3, evaluate_seconds=0.7))
    events = on_a_real_clock(plan, [1.0, 3.0, 8.0] * 4, judging, 2.5)
    assert only(ModelCommitted, events) and len(only(Evaluated, events)) > 3
