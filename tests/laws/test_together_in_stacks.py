"""Every registered algorithm, policy and selector: two runs that advance together have the digests that each has alone, or the
run is refused in one sentence either way; and what a prediction cannot foresee it says in one sentence."""

import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.runs import FinishedRun, perform
from fedfleet.app.runs.execution import Kernel
from fedfleet.app.spec import resolve
from fedfleet.app.studies.grid.joint_jobs import perform_together
from fedfleet.app.studies.predict.participation import predictable_plan
from fedfleet.core.errors import BadInput, FedFleetError
from fedfleet.core.events import ModelCommitted
from fedfleet.core.registry import names
from fedfleet.executors.stacked.form_choice import Form
from fedfleet.simulation.dry_run import dry_run
from tests.laws.test_audits import CHOSEN, LIGHT_WORK, SELECTORS, paced
from tests.testing.registered import fitting_task

pytestmark = pytest.mark.slow

FORM = Form("merged", 1)
BASE = {
    "task": "digits_logreg",
    "world": {"clients": 12, "devices": "spread", "model_bytes": 1e7},
    "stop": {"rounds": 2},
    "run": {"execute": "stacked"},
}


def tables():
    """By name: each algorithm under a policy that it can have, each policy and each selector under the plain method."""
    result = {
        a: {
            "algorithm": {"use": a, **LIGHT_WORK.get(a, {})},
            "pace": paced("readiness"),
            "task": fitting_task(a),
            **CHOSEN.get(a, {}),
        }
        for a in names("algorithms")
    }
    result |= {f"pace {p}": {"pace": paced(p)} for p in names("policies")}
    result |= {
        f"choose {s}": {"choose": {"use": s, **SELECTORS.get(s, {})}, "pace": paced("readiness")} for s in names("selectors")
    }
    return result


def told(result):
    """Its digest, or the sentence with which it was refused."""
    if isinstance(result, FinishedRun):
        return result.metrics["digest"]
    assert isinstance(result, FedFleetError) and str(result), result
    return str(result)


def alone(spec, folder):
    try:
        return perform(spec, folder, kernel=Kernel(form=FORM))
    except FedFleetError as error:
        return error


@pytest.mark.parametrize("name", tables())
def test_together_is_as_alone(name, tmp_path):
    table = {**BASE, **tables()[name]}
    try:
        specs = [resolve({**table, "seed": seed}, name) for seed in (3, 4)]
    except BadInput as error:
        pytest.fail(f"{name}: {error}")
    joined = perform_together(specs, [tmp_path / f"j{i}" for i in range(2)], form=FORM)
    assert [told(one).replace("/j", "/a") for one in joined] == [
        told(alone(spec, tmp_path / f"a{i}")) for i, spec in enumerate(specs)
    ]


@pytest.mark.parametrize("name", tables())
def test_who_takes_part_is_foreseen_or_refused_in_a_sentence(name, tmp_path):
    spec = resolve({**BASE, **tables()[name], "seed": 3}, name)
    setup = assemble(spec)
    if setup.plan.algorithm.pooled:
        with pytest.raises(BadInput, match="trains in one place"):
            predictable_plan(setup)
        return
    plan, replaced = predictable_plan(setup)
    foreseen = dry_run(plan, setup.world)
    assert len(foreseen.times) + sum(foreseen.failed.values()) == foreseen.rounds > 0
    if not replaced:
        trained = [e.time for e in perform(spec, tmp_path / "run").events if isinstance(e, ModelCommitted)]
        assert foreseen.times.tolist() == trained
