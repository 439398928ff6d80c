"""Looking before picking: probes take time and bytes unless they are free; runs that look resume, and are derived again."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.commands import Probe
from fedfleet.core.events import CandidatesSeen, Probed, TaskArrived, TasksSent
from fedfleet.core.parts import Selector
from fedfleet.core.records import Stop, whole_work
from fedfleet.core.rng import hash_keys
from fedfleet.core.sources import World
from fedfleet.core.stages import source_from_stages
from fedfleet.engine.coordinator import begin
from fedfleet.measure.costs import traffic
from fedfleet.measure.run_record import read_record
from fedfleet.measure.tasks import task_table
from fedfleet.pace.asynchronous import buffered
from fedfleet.pace.rounds import readiness
from fedfleet.simulation.audit import audit_by_rerun, audit_decisions
from fedfleet.simulation.audit_record import Mismatch
from fedfleet.simulation.checkpoints import Checkpoints, restore
from fedfleet.simulation.probes import ANSWER_BYTES, probe_outcome
from fedfleet.simulation.simulator import simulate
from fedfleet.store import journal as journals
from fedfleet.store.journal_rows import Kind
from fedfleet.testing.toys import consensus, no_data, opaque_executor
from fedfleet.world.faults import crashes, reachable_states
from fedfleet.world.states import always_on, interval_states
from tests.faulty import rows_of
from tests.simulation.test_audit import changed, first
from tests.worlds import even_fleet, events_of, only, toy_plan, traces_of

N, BYTES = 6, 1000.0
KEYS = even_fleet(N).keys


def power_of_choice(stat="loss", d=4, within=math.inf):
    """Look at some, drawn evenly, and pick those with the largest answer; who did not answer comes last."""

    def probe(state, roster, n, draw):
        ranks = np.argsort(hash_keys(draw.seed, "look", roster.keys, draw.round, draw.first), kind="stable")
        return np.sort(roster.clients[ranks[: max(d, n)]]), stat

    def pick(state, roster, n, draw):
        answers = np.where(np.isnan(roster.stats[stat]), -math.inf, roster.stats[stat])
        ties = hash_keys(draw.seed, "tie", roster.keys, draw.first)
        return whole_work(roster.clients[np.lexsort((ties, -answers))[:n]])

    return Selector("power_of_choice", pick, probe=probe, probe_seconds=within)


def world(*, free=False, states=None, slow=1.0):
    """A byte down takes a millisecond, a sample a tenth of a second, a byte up two milliseconds; client i is i + 1 times slower."""

    def stages(clients, cost, start, tasks):
        times = slow * (clients + 1.0)
        return {
            "download": times * cost.bytes_down * 1e-3,
            "compute": times * cost.samples * 0.1,
            "upload": times * cost.bytes_up * 2e-3,
        }

    data = no_data(N, 30)
    return World(KEYS, source_from_stages(stages, ["toy"] * N), states or always_on()(KEYS, 0), data, free_probes=free)


def plan(pace=None, rounds=3, **how):
    return toy_plan(
        pace or readiness(2, t_break=10.0), N, algorithm=consensus(model_bytes=BYTES), choose=power_of_choice(**how),
        stop=Stop(rounds=rounds, virtual_seconds=1e6),
    )  # fmt: skip


def looked(where, stat="loss", clients=(0, 1, 2), within=math.inf):
    made = plan()
    state = begin(made).state
    return probe_outcome(made, where, state, Probe(np.array(clients), stat, state.server, 100.0, 0, within))


def test_a_probe_fetches_the_model_tries_the_data_and_sends_a_number():
    result = looked(world())
    trip = 1.0 + 30 / 3 * 0.1 + ANSWER_BYTES * 2e-3
    assert result.ends == pytest.approx(100.0 + 3 * trip) and result.answered.all()
    assert result.spent["compute"] == pytest.approx([1.0, 2.0, 3.0])
    assert result.spent["bytes_down"].tolist() == [BYTES] * 3 and result.spent["bytes_up"].tolist() == [ANSWER_BYTES] * 3


def test_free_probes_take_nothing():
    result = looked(world(free=True))
    assert (result.ends, result.answered.all(), result.spent) == (100.0, True, {})


def test_who_does_not_answer_in_time_worked_until_then():
    result = looked(world(), within=2.5)
    assert result.ends == 102.5 and result.answered.tolist() == [True, False, False]
    assert result.spent["download"] == pytest.approx([1.0, 2.0, 2.5])
    assert result.spent["compute"] == pytest.approx([1.0, 0.5, 0.0])
    assert result.spent["bytes_down"] == pytest.approx([BYTES, BYTES, BYTES * 2.5 / 3])
    assert result.spent["bytes_up"].tolist() == [ANSWER_BYTES, 0.0, 0.0]


def test_who_cannot_do_it_is_not_waited_for():
    result = looked(world(slow=math.inf))
    assert result.ends == 100.0 and not result.answered.any()
    assert not any(values.any() for values in result.spent.values())


def test_looking_takes_time_in_a_run_and_its_bytes_are_waste():
    paid, free = (events_of(plan(), world(free=f))[0] for f in (False, True))
    for log, late in ((paid, True), (free, False)):
        seen, told, sent = (only(kind, log)[0].time for kind in (CandidatesSeen, Probed, TasksSent))
        assert (told > seen) == late and sent == told
    costs = [traffic(task_table(log), 1.0, read_record(log).probes) for log in (paid, free)]
    assert costs[1].wasted_down == 0.0 and costs[0].wasted_down == 3 * 4 * BYTES
    assert costs[0].wasted_up == 3 * 4 * ANSWER_BYTES
    assert costs[0].bytes_down == 3 * 4 * BYTES + 3 * 2 * BYTES


@pytest.mark.parametrize("stat", ["loss", "seconds"])
@pytest.mark.parametrize("within", [math.inf, 4.0])
def test_runs_that_look_are_derived_again(stat, within):
    made, where = plan(stat=stat, within=within), world()
    log, _ = events_of(made, where)
    rows = list(enumerate(rows_of(log), 1))
    audit_by_rerun(made, where, opaque_executor(), rows)
    audit_decisions(made, where, rows)
    if within < math.inf:
        assert np.isnan(only(Probed, log)[0].values).any()
    at = first(rows, Kind.PROBED)
    with pytest.raises(Mismatch):
        audit_decisions(made, where, changed(rows, at, time=rows[at][1][0] + 0.5))
    with pytest.raises(Mismatch):
        audit_decisions(made, where, changed(rows, at, body=rows[at][1][8].replace("bytes_down", "bytes_up")))


def test_a_run_goes_on_from_the_middle_of_a_probe(tmp_path):
    # Tasks end while a probe is out, and it is saved just then.
    made, where = plan(buffered(k=2, concurrency=3, refill=1.0), rounds=6), world()
    log, heard = [], []

    class Once:
        def __init__(self):
            self.inner = Checkpoints(tmp_path, journals.memory_journal(), 1)

        def save_if_due(self, sim):
            if sim.state.probe is not None and sim.state.book.version >= 2 and not heard:
                self.inner.saved_at = 0
                self.inner.save_if_due(sim)
                heard.append(len(log))

    simulate(made, where, opaque_executor(), keeper=Once(), watch=log.extend)
    back = restore(tmp_path, made, where, opaque_executor(), eager=False)
    assert back.sim.state.probe is not None
    tail = []
    simulate(made, where, opaque_executor(), resume=back.sim, watch=tail.extend)
    assert rows_of(tail) == rows_of(log[heard[0] :])
    out, ended = False, 0
    for event in log:
        out = isinstance(event, CandidatesSeen) or (out and not isinstance(event, Probed))
        ended += out and isinstance(event, TaskArrived)
    assert ended, "nothing happened while a probe was out"


def test_who_goes_down_while_it_is_looked_at_loses_its_task_at_once():
    source = crashes(rate=1.0, seconds=400.0, period=512.0)(KEYS, 2)
    where = replace(world(slow=40.0), states=reachable_states(always_on()(KEYS, 0), source), faults=source)
    log, _ = events_of(plan(buffered(k=1, concurrency=2, lease=600.0), rounds=3), where)
    assert any(e.seconds == 0.0 for e in log if type(e).__name__ == "TaskStruck")


def test_a_probe_of_clients_that_come_and_go_waits_for_them():
    states = interval_states(traces_of([((0.0, 1.0), (50.0, 60.0))] * N, [100.0] * N))
    assert looked(world(states=states)).ends > 150.0
