"""Every registered selector under every registered policy, where everything goes wrong and all of it costs energy.

What single parts promise must hold of them together: each task ends once and is paid for once, sums are those of the journal, the
time is explained to the microsecond, the run is derived again and goes on from a checkpoint. Each test run takes a sample in which
everyone is met, a soak takes all pairs.
"""

import itertools
import json
import math
from collections import Counter

import numpy as np
import pytest

from fedfleet.app.assemble import assemble, open_executor
from fedfleet.app.runs.explanation import progress_of
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.events import ModelCommitted, Probed, ReportUnwanted, RunEnded, TasksSpent
from fedfleet.core.registry import names
from fedfleet.core.stages import STAGES
from fedfleet.measure.attribution.critical_path import attribution
from fedfleet.measure.summary import summary
from fedfleet.simulation.audit import audit_by_rerun, audit_decisions
from fedfleet.simulation.checkpoints import Checkpoints, restore
from fedfleet.simulation.simulator import simulate
from fedfleet.store import journal as journals
from tests.faulty import OneCheckpoint, check_fates, rows_of

pytestmark = pytest.mark.slow

FAIR = {"use": "fair", "cap": 2.0, "selector": "oort"}
TIMELY = {"use": "timely", "seconds": 60.0, "least": 0.001}
SELECTORS = {
    "only": {"ids": [0, 2, 3, 5, 7, 8, 9, 11], "selector": {"use": "per_user", "selector": FAIR}},
    "explore": {"share": 0.5, "selector": TIMELY},
    "per_user": {"selector": {"use": "power_of_choice", "d": 6}},
    "fair": {"cap": 2.0, "selector": {"use": "flame", "energy": True, "recharge": 300.0}},
    "flame": {"energy": True, "by": "average"},
    "oort": {"explore": 0.6, "decay": 0.7, "pacer_step": 2, "preferred": 0.3, "blacklist": 2},
    "power_of_choice": {"d": 6},
    "tifl": {"tiers": 3, "mode": "adaptive", "every": 2},
    "timely": TIMELY,
    "timely_interval": {"k": 2},
}  # fmt: skip
FIRST = {"first": {"use": "timeout", "cohort": 4}, "second": {"use": "deadline", "cohort": 3, "seconds": 90.0}}
POLICIES = {
    "overcommit": {"policy": {"use": "first_of", **FIRST}},
    "first_of": FIRST,
    "semi_async": {"period": 30.0, "concurrency": 4, "refill": 10.0, "lease": 200.0},
    "buffered": {"k": 2, "concurrency": 4, "max_staleness": 5, "lease": 300.0, "refill": 10.0},
    "deadline": {"cohort": 4, "seconds": 60.0},
    "readiness": {"cohort": 4, "lease": 100.0, "max_staleness": 2},
    "timeout": {"cohort": 4, "seconds": 20.0},
}
LOST = {"use": "lossy", "download": 0.1, "compute": 0.1, "upload": 0.1}
FAULTS = [LOST, {"use": "crashes", "rate": 0.1}, *({"use": n, "share": 0.2} for n in ("delayed", "repeated", "slowed"))]
WORLD = {
    "clients": 12, "devices": "spread", "model_bytes": 1e7, "states": {"use": "daily", "sessions": 24, "ready": 0.8},
    "users": {"use": "households"}, "faults": FAULTS, "energy": {"use": "carbon", "energy": {"use": "phones", "link": "4g"}},
}  # fmt: skip
PAIRS = list(itertools.product(names("selectors"), names("policies")))


def sampled():
    """Pairs in which every selector meets one policy and every policy some selectors."""
    policies = names("policies")
    return [(s, policies[i % len(policies)]) for i, s in enumerate(names("selectors"))]


def spec_of(selector, policy):
    choose = {"use": selector, **SELECTORS.get(selector, {})}
    parts = "timely" in json.dumps(choose)  # who gives parts of the model needs somebody who trains them
    how = {"algorithm": "timelyfl", "task": "digits_mlp"} if parts else {"task": "digits_logreg"}
    pace = {"use": policy, **POLICIES.get(policy, {"cohort": 4})}
    return resolve({"seed": 4, "world": WORLD, "choose": choose, "pace": pace, "stop": {"rounds": 5}, **how})


@pytest.mark.parametrize(("selector", "policy"), sampled())
def test_together_they_keep_what_each_of_them_promises(selector, policy, tmp_path):
    check_pair(selector, policy, tmp_path)


def check_pair(selector, policy, folder):
    """Everything that must hold of a run of these two."""
    spec = spec_of(selector, policy)
    if policy in ("buffered", "semi_async") and selector in ("pyramidfl", "tifl"):
        with pytest.raises(BadInput, match="has no rounds"):
            assemble(spec)
        return
    setup, log = assemble(spec), []
    plan, world = setup.plan, setup.world
    with open_executor(setup) as execute:
        keeper = OneCheckpoint(Checkpoints(folder, journals.memory_journal(), 1), log, 14)
        simulate(plan, world, execute, keeper=keeper, watch=log.extend)
        rows = rows_of(log)
        assert audit_by_rerun(plan, world, execute, list(enumerate(rows, 1))).events == len(log)
        audit_decisions(plan, world, list(enumerate(rows, 1)))
        assert keeper.heard
        back, tail = restore(folder, plan, world, execute, eager=False), []
        simulate(plan, world, execute, resume=back.sim, watch=tail.extend)
        assert rows_of(tail) == rows_of(log[keeper.heard :]), "resumed, it goes on otherwise"
    assert isinstance(log[-1], RunEnded) and log[-1].reason == "rounds"
    assert any(isinstance(e, ModelCommitted) for e in log), "a run without a model proves nothing"
    check_explained(spec, log)
    check_costs(log, check_fates(log), summary(log))


def check_explained(spec, log):
    """The time of every round, and of all of them, is explained to the microsecond, and nothing is unknown."""
    result = attribution(log, progress_of(spec))
    assert math.isclose(math.fsum(result.causes.values()), log[-1].time, rel_tol=0.0, abs_tol=1e-6)
    assert min(result.causes.values()) >= 0.0 and result.causes["unknown"] == 0.0
    for r in result.rounds:
        assert math.isclose(math.fsum(r.causes.values()), r.seconds, rel_tol=0.0, abs_tol=1e-6)
        assert min(r.causes.values(), default=0.0) >= 0.0


def check_costs(log, fates, metrics):
    """Every task is paid for once, and the measures are the sums of what tasks, probes and second deliveries cost."""
    spent, looks = ([e for e in log if isinstance(e, kind)] for kind in (TasksSpent, Probed))
    tasks = sum(n for fate, n in fates.items() if fate != "again")
    assert Counter(t for e in spent for t in e.tasks.tolist()) == Counter(range(tasks))
    columns = [column for e in (*spent, *looks) for column in e.spent.values()]
    assert all((column >= 0).all() for column in columns), "a cost below zero, or unknown"

    def paid(name):
        return math.fsum(float(e.spent[name].sum()) for e in (*spent, *looks) if name in e.spent)

    again = math.fsum(e.bytes_up for e in log if isinstance(e, ReportUnwanted) and e.reason == "again")
    assert metrics["bytes_down"] == pytest.approx(paid("bytes_down"))
    assert metrics["bytes_up"] == pytest.approx(paid("bytes_up") + again)
    drawn = metrics["energy"]
    assert drawn["joules"] == pytest.approx(paid("joules")) == pytest.approx(drawn["useful"] + drawn["wasted"] + drawn["probes"])
    assert drawn["joules"] > 0 and drawn["grams"] == pytest.approx(paid("grams"))
    assert np.isfinite(sum(paid(stage) for stage in STAGES))
