"""The law of a budget: a process uses its share of the time, what it saved up, and what it used between two looks, no more."""

from hypothesis import given
from hypothesis import strategies as st

from fedfleet.network.pool.cpu_budget import PERIOD, CpuBudget

shares = st.floats(0.02, 1.0)


def simulate(share, steps):
    """A process with so much to do in each step, which uses a core while it may run: the time, what it used, whether it may run."""
    budget, now, used, running, wanted = CpuBudget(share, 0.0, 0.0), 0.0, 0.0, True, 0.0
    history = []
    for seconds, load in steps:
        wanted += load * seconds
        spent = min(seconds, wanted) if running else 0.0
        now, used, wanted = now + seconds, used + spent, wanted - spent
        running = budget.may_run(now, used)
        history.append((now, used, running))
    return history


@given(shares, st.lists(st.tuples(st.floats(0.001, 0.02), st.floats(0.0, 1.0)), min_size=1, max_size=300))
def test_no_more_is_used_than_the_share_the_savings_and_one_look(share, steps):
    longest = max(seconds for seconds, _ in steps)
    for now, used, _ in simulate(share, steps):
        assert used <= share * now + share * PERIOD + longest + 1e-9


@given(shares)
def test_a_busy_process_gets_its_share(share):
    now, used, _ = simulate(share, [(0.004, 1.0)] * 5000)[-1]
    assert abs(used / now - share) < 0.01


def test_an_idle_process_is_never_stopped_and_saves_no_more_than_a_period():
    budget = CpuBudget(0.5, 0.0, 0.0)
    assert all(budget.may_run(0.01 * i, 0.0) for i in range(1, 1000))
    assert budget.credit == 0.5 * PERIOD


def test_debts_are_paid_before_a_process_runs_again():
    budget = CpuBudget(0.1, 0.0, 0.0)
    assert not budget.may_run(0.1, 0.1)  # it may have used 0.01
    assert not budget.may_run(0.9, 0.1)
    assert budget.may_run(1.01, 0.1)
