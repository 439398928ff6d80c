"""Whatever goes wrong, every policy's runs keep their books: a sample of the random fault runs of the soak, and laws over them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.assemble.feasibility import waits_for_ever
from fedfleet.core.events import ReportUnwanted, TaskLost, TaskStruck
from fedfleet.core.records import Stop
from fedfleet.core.registry import builder, names, parameters
from fedfleet.core.rng import stream
from tests.faulty import Wrong, check_case, policy_of, world_of
from tests.portions import examples
from tests.worlds import doubled, events_of, fleets, paces, plain, renamed, toy_plan

pytestmark = pytest.mark.slow

law = examples(20, soak=40)
SAMPLE, MOST = 12, 60
KINDS = {"arrived", "lost", "late", "dropped", "running at the end", "again", "resumed"}
# Every registered policy that can give a task up; readiness can once it has a lease.
PACES = [n for n in names("policies") if n != "readiness" or "lease" in parameters(builder("policies", n))]
# Dyadic, so that doubling all times is exact.
rates = st.sampled_from([0.0, 0.0, 0.25, 0.5])
wrongs = st.builds(
    Wrong, download=rates, compute=rates, upload=rates, noticed=st.booleans(), late=rates, again=rates, slow=rates,
    crash=rates, outage=rates, seconds=st.sampled_from([2.0, 16.0]), period=st.sampled_from([32.0, 128.0]),
)  # fmt: skip


@pytest.mark.parametrize("name", PACES)
def test_whatever_goes_wrong_each_task_ends_once_and_is_paid_for(name, tmp_path):
    result = Counter()
    for case in range(MOST):
        # Without cases of every kind the laws would say little: policies that seldom meet one get more cases.
        if case >= SAMPLE and set(result) >= KINDS:
            break
        result += check_case(name, case, tmp_path / str(case))
    assert set(result) >= KINDS


@pytest.mark.parametrize("name", PACES)
def test_every_policy_gives_up_who_is_silent(name):
    assert not any(waits_for_ever(policy_of(name, stream(17, f"faulty/{name}", case), 10), 10) for case in range(20))


def ran(fleet, pace, wrong, scale=1.0):
    stop = Stop(rounds=5, virtual_seconds=4096.0 * scale)
    return events_of(toy_plan(pace.policy(scale), len(fleet), stop=stop), world_of(fleet, wrong.recipe(scale)))[0]


@law
@given(fleets(), paces(), wrongs)
def test_doubling_all_durations_doubles_all_times_and_changes_nothing_else(fleet, pace, wrong):
    once, twice = ran(fleet, pace, wrong), ran(doubled(fleet), pace, wrong, 2.0)
    assert [plain(e) for e in twice] == [plain(e, scale=2.0) for e in once]


@law
@given(fleets(), paces(), wrongs, st.randoms(use_true_random=False))
def test_renaming_clients_renames_the_journal_and_nothing_else(fleet, pace, wrong, random):
    order = list(range(len(fleet)))
    random.shuffle(order)
    before, after = ran(fleet, pace, wrong), ran(renamed(fleet, order), pace, wrong)
    assert [plain(e, names=order) for e in after] == [plain(e) for e in before]


@law
@given(fleets(), paces())
def test_faults_that_never_strike_change_nothing(fleet, pace):
    never = Wrong(seconds=16.0)
    plan = toy_plan(pace.policy(), len(fleet), stop=Stop(rounds=5, virtual_seconds=4096.0))
    with_, without = (events_of(plan, world_of(fleet, f))[0] for f in (never.recipe(), None))
    assert [plain(e) for e in with_] == [plain(e) for e in without]


@law
@given(fleets(), paces(), wrongs)
def test_what_is_noticed_is_lost_and_what_is_not_is_struck(fleet, pace, wrong):
    wrong = replace(wrong, crash=0.0, outage=0.0)
    log = ran(fleet, pace, wrong)
    lost = [e for e in log if isinstance(e, TaskLost) and np.isfinite(e.seconds)]
    struck = [e for e in log if isinstance(e, TaskStruck)]
    assert not (struck if wrong.noticed else lost)
    assert all(e.reason.startswith("lost in ") for e in (*lost, *struck))
    if not (wrong.late or wrong.again):
        assert not any(isinstance(e, ReportUnwanted) for e in log)
