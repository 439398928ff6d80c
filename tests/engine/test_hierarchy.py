"""Nested plans: what edges know, what a turn must keep, and how long it takes by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.edges import Abilities, EdgeFleet, EdgeRule, NestedPass, Sync, Turn, UserSource
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.parts import Job, Offer
from fedfleet.core.records import ServerState, whole_work
from fedfleet.core.rng import client_keys
from fedfleet.core.stages import STAGES
from fedfleet.engine.hierarchy import (
    EDGE,
    MAX_SYNCS,
    SLOTS,
    check_turn,
    make_visits,
    memory_after,
    nest_algorithm,
    turn_cost,
    turn_seconds,
    turn_stats,
)
from fedfleet.learn.codecs.quantisation import int8
from fedfleet.learn.compression import with_compression
from fedfleet.learn.features import with_variants
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.zoo import fedavg_plus, fedbuff, local_only, stale_fedavg
from fedfleet.testing.toys import consensus

LAWS = settings(deadline=None, derandomize=True, max_examples=60)
MODEL = {"w": np.zeros(250, np.float32)}  # 1000 bytes: 8000 bits
EPOCHS = 2
# Two devices of one user: inference seconds, and links such that the model needs 8 s up and 4 s down, or 2 s and 1 s.
ABLE = Abilities(np.array([0.1, 0.5]), np.array([1000.0, 4000.0]), np.array([2000.0, 8000.0]))


def no_rule():
    return EdgeRule("nothing", lambda visits: [Turn(v.rows, (Sync(np.arange(len(v.rows)), v.rows),)) for v in visits])


def best_link(edge, able):
    """To the server by the device with the best upload."""
    best = able.up_bps.argmax()
    return float(able.up_bps.max()), float(able.down_bps.max()), float(able.latencies()[best])


def edge_job(slots, able=ABLE, *, rule=None, memory=(), scale=1.0, algorithm=None, offered=MODEL, first=0, **more):
    """An edge's work: row i of its shard (rows first, first + 1, ..) lies on device slots[i] at first."""
    n = len(able.up_bps)
    fleet = EdgeFleet(
        UserSource(np.zeros(n, np.int64)), client_keys(n), lambda edge: np.array(slots, np.int64),
        lambda devices, time, task: able, best_link, scale,
    )  # fmt: skip
    inside = NestedPass(algorithm or fedavg(epochs=EPOCHS, batch=2), rule or no_rule(), fleet)
    task, client = more.pop("task", 5), more.pop("client", 0)
    return Job(task, client, 9, 3, Offer(offered), inside, first + np.arange(len(slots)), memory=dict(memory), **more)


def seconds_of_turn(job, **turn):
    visit = make_visits([job])[0]
    turn.setdefault("syncs", (Sync(np.arange(len(visit.rows)), visit.rows),))
    return turn_seconds(turn_cost(job, visit, Turn(visit.rows, **turn)))


TWO = edge_job([0] * 10 + [1] * 3)


def test_a_turn_takes_what_the_hand_computes():
    # Device 0: model down 4, exchange 2, training 3 x 0.1 x 2 x 10 = 6, model up 8; device 1: 1 + 5 + 9 + 2 = 17.
    own = seconds_of_turn(TWO, planning=7.0, exchange=np.array([2.0, 5.0]))
    assert own == pytest.approx(1.0 + 7.0 + max(4 + 2 + 6 + 8, 1 + 5 + 9 + 2) + 2.0)


def test_several_averages_add_up_and_samples_are_exchanged_once():
    visit = make_visits([TWO])[0]
    both, one = Sync(np.array([0, 1]), visit.rows), Sync(np.array([1]), visit.rows[1:], 1)
    # One step on a batch of two of device 1's rows: 1 + 3 x 0.5 x 2 + 2.
    turn = {"planning": 7.0, "exchange": np.array([2.0, 5.0])}
    assert seconds_of_turn(TWO, syncs=(both, one), **turn) == pytest.approx(30.0 + 6.0)
    assert seconds_of_turn(TWO, syncs=(both, one, one, both), **turn) == pytest.approx(30.0 + 2 * 6.0 + 18.0)


def test_a_device_that_only_hands_samples_on_is_waited_for():
    visit = make_visits([TWO])[0]
    alone = (Sync(np.array([1]), visit.rows[1:]),)
    assert seconds_of_turn(TWO, syncs=alone, exchange=np.array([100.0, 0.0])) == pytest.approx(103.0)
    assert seconds_of_turn(TWO, syncs=alone) == pytest.approx(3.0 + 1 + 9 + 2)


def test_every_trip_costs_its_devices_latency_and_every_batch_its_own_time():
    late = replace(ABLE, latency=np.array([0.5, 3.0]), seconds_per_batch=np.array([0.25, 0.0]))
    job = edge_job([0] * 10 + [1] * 3, late)
    # As above; device 0 also has 2 epochs of 5 batches, device 1 is better connected and carries the model to the server.
    own = seconds_of_turn(job, planning=7.0, exchange=np.array([2.0, 5.0]))
    assert own == pytest.approx(1.0 + 7.0 + max(4 + 2 + 6 + 8 + 0.5 + 10 * 0.25, 1 + 5 + 9 + 2 + 3.0) + 2.0 + 3.0)
    visit = make_visits([job])[0]
    one = Sync(np.array([1]), visit.rows[1:], 1)
    assert seconds_of_turn(job, syncs=(one,) * 3) == pytest.approx(3 * (1 + 3 + 2 + 3.0) + 3.0 + 3.0)


@st.composite
def turns(draw):
    """Devices of unlike speed with rows of their own, and what a turn takes beside training."""
    n = draw(st.integers(1, 5))
    each = {"min_size": n, "max_size": n}
    speeds = [np.array(draw(st.lists(st.floats(low, high), **each))) for low, high in ((0.01, 2), (1e3, 1e6), (1e3, 1e6))]
    slots = np.repeat(np.arange(n), draw(st.lists(st.integers(1, 20), **each)))
    beside = draw(st.floats(0, 50)), np.array(draw(st.lists(st.floats(0, 50), **each)))
    return Abilities(*speeds), slots, beside


@LAWS
@given(turns(), st.sampled_from([2.0, 3.7]), st.floats(0.0, 10.0))
def test_faster_devices_shorten_a_turn_by_as_much(case, factor, latency):
    able, slots, (planning, exchange) = case
    able = replace(able, latency=latency * able.seconds_per_sample, seconds_per_batch=latency)
    faster = Abilities(
        able.seconds_per_sample / factor, able.up_bps * factor, able.down_bps * factor, able.latency / factor,
        latency / factor,
    )  # fmt: skip
    one = seconds_of_turn(edge_job(slots, able), planning=planning, exchange=exchange)
    two = seconds_of_turn(edge_job(slots, faster), planning=planning / factor, exchange=exchange / factor)
    assert two == pytest.approx(one / factor)
    if factor == 2.0:
        assert 2.0 * two == one, "to the last bit"


@LAWS
@given(turns(), st.floats(0.0, 10.0), st.integers(1, 3))
def test_the_stages_of_a_turn_add_up_to_its_seconds_to_the_last_bit(case, latency, times):
    able, slots, (planning, exchange) = case
    able = replace(able, latency=latency * able.seconds_per_sample, seconds_per_batch=latency)
    job, sizes = edge_job(slots, able), np.bincount(slots).astype(float)
    visit = make_visits([job])[0]
    syncs = (Sync(np.arange(len(visit.rows)), visit.rows),) * times
    spent = turn_cost(job, visit, Turn(visit.rows, syncs, planning, exchange))
    assert set(spent) <= set(STAGES)
    assert sum(spent[stage] for stage in STAGES if stage in spent) == turn_seconds(spent)
    # By hand: the last device of each average, and the best connected one to the server.
    batches = EPOCHS * np.ceil(sizes / 2)
    work = 3.0 * (EPOCHS * sizes) * able.seconds_per_sample + latency * batches
    busy = 8000.0 / able.down_bps + 8000.0 / able.up_bps + able.latencies() + work
    first, later = (exchange + busy).max(), busy.max()
    up, down, trip = best_link(0, able)
    by_hand = planning + first + (times - 1) * later + 8000.0 / down + 8000.0 / up + trip
    assert turn_seconds(spent) == pytest.approx(by_hand, rel=1e-12)


def test_the_stages_are_those_of_the_device_that_is_waited_for():
    visit = make_visits([TWO])[0]
    turn = Turn(visit.rows, (Sync(np.array([0, 1]), visit.rows),), planning=7.0, exchange=np.array([2.0, 5.0]))
    # Device 0: exchange 2, model down and up 4 + 8, training 6: 20. Device 1 takes 17. It alone has the better link upwards.
    spent = turn_cost(TWO, visit, turn)
    assert spent == pytest.approx(
        {
            "latency": 0.0,
            "download": 1.0,
            "planning": 7.0,
            "exchange": 2.0,
            "averaging": 12.0,
            "compute": 6.0,
            "upload": 2.0,
        }
    )


def drawing(log):
    def draws(devices, spent, time):
        log.append((time, {stage: took.tolist() for stage, took in spent.items() if took.any()}))
        return {"joules": float(sum(took.sum() for took in spent.values()))}

    return draws


def test_all_devices_of_a_turn_are_charged_and_those_that_carry_the_model_to_the_server_too():
    log = []
    inside = replace(TWO.local, fleet=replace(TWO.local.fleet, energy_draws=drawing(log)))
    job = replace(TWO, local=inside, time=50.0)
    visit = make_visits([job])[0]
    turn = Turn(visit.rows, (Sync(np.array([0, 1]), visit.rows),), planning=7.0, exchange=np.array([2.0, 5.0]))
    spent = turn_cost(job, visit, turn)
    # One watt for everything but planning: 20 and 17 seconds of the two devices, and 3 on the way to the server.
    assert spent["joules"] == pytest.approx(20.0 + 17.0 + 3.0)
    assert [time for time, _ in log] == [50.0, 50.0]
    assert log[0][1] == {"download": [0.0, 1.0], "upload": [0.0, 2.0]}
    assert log[1][1]["exchange"] == [2.0, 5.0]
    assert turn_seconds(spent) == turn_seconds(turn_cost(TWO, visit, turn)), "joules take no time"


def test_equals_are_told_apart_by_their_keys_whatever_their_order():
    # Both take 12 s: the first by its link, the second by its work. Whose stages are said follows the key.
    able = Abilities(np.array([0.0, 0.5]), np.array([1000.0, 4000.0]), np.array([2000.0, 8000.0]))
    result = []
    for keys in (np.array([1, 2], np.uint64), np.array([2, 1], np.uint64)):
        job = edge_job([0] * 4 + [1] * 3, able)
        job = replace(job, local=replace(job.local, fleet=replace(job.local.fleet, keys=keys)))
        visit = make_visits([job])[0]
        result.append(turn_cost(job, visit, Turn(visit.rows, (Sync(np.array([0, 1]), visit.rows),)))["compute"])
    assert result == [0.0, 9.0]


@LAWS
@given(turns(), st.floats(1.5, 100))
def test_a_declared_model_size_scales_transfers_only(case, scale):
    able, slots, (planning, exchange) = case
    thinner = Abilities(able.seconds_per_sample, able.up_bps / scale, able.down_bps / scale)
    beside = {"planning": planning, "exchange": exchange}
    large = seconds_of_turn(edge_job(slots, able, scale=scale), **beside)
    assert large == pytest.approx(seconds_of_turn(edge_job(slots, thinner), **beside))
    none = seconds_of_turn(edge_job(slots, able, scale=0.0), **beside)
    sizes = np.bincount(slots)
    assert none == pytest.approx(planning + (exchange + 3 * EPOCHS * sizes * able.seconds_per_sample).max())


def test_an_edge_finds_its_rows_where_it_left_them():
    first = make_visits([TWO])[0]
    assert [len(rows) for rows in first.rows] == [10, 3]
    later = make_visits([replace(TWO, memory={EDGE: {SLOTS: np.arange(13) % 2, "mine": np.ones(2)}})])[0]
    assert later.rows[1].tolist() == [1, 3, 5, 7, 9, 11]
    assert later.memory["mine"].tolist() == [1.0, 1.0]
    assert (first.edge, first.task, first.seed) == (0, 5, 3)


@LAWS
@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 10_000))
def test_what_moved_stays_moved(devices, rows, seed):
    rng = np.random.default_rng(seed)
    able = Abilities(np.ones(devices), np.ones(devices), np.ones(devices))
    job = edge_job(rng.integers(devices, size=rows), able)
    job = replace(job, rows=rng.permutation(100)[:rows])  # a shard is in no particular order
    visit = make_visits([job])[0]
    where = rng.integers(devices, size=rows)
    turn = Turn(tuple(np.sort(job.rows[where == k]) for k in range(devices)), (), memory={"mine": np.array([4])})
    memory = memory_after(job, turn, 2.5)
    assert memory[EDGE]["seconds"].tolist() == [2.5] and memory[EDGE]["mine"].tolist() == [4]
    again = make_visits([replace(job, memory=memory)])[0]
    assert [np.sort(mine).tolist() for mine in again.rows] == [mine.tolist() for mine in turn.rows]
    before = np.empty(100, np.int64)
    for k, mine in enumerate(visit.rows):
        before[mine] = k
    assert turn_stats(visit, turn, 2.5)["moved"] == (before[job.rows] != where).sum()


def test_part_of_a_shard_is_refused_by_name():
    with pytest.raises(RunFailed, match=r"edge 0: .* 7 of 13 samples"):
        make_visits([replace(TWO, rows=TWO.rows[:7])])


def faulty(rows, syncs=1):
    visit = make_visits([TWO])[0]
    return visit, Turn(rows(*visit.rows), (Sync(np.array([0]), visit.rows[:1]),) * syncs)


@pytest.mark.parametrize(
    "rows",
    [
        lambda a, b: (a[:-1], b),
        lambda a, b: (a, np.append(b, a[0])),
        lambda a, b: (a, b[:-1], b[-1:]),
        lambda a, b: (np.concatenate([a, b]),),
        lambda a, b: (a, np.append(b[:-1], 99)),
    ],
    ids=["lost", "doubled", "too many devices", "too few devices", "invented"],
)
def test_a_rule_that_loses_or_doubles_samples_is_stopped(rows):
    with pytest.raises(RunFailed, match="edge 0: its rule lost or duplicated samples"):
        check_turn(*faulty(rows))


def test_a_turn_has_some_averages_and_not_too_many():
    for count in (0, MAX_SYNCS + 1):
        with pytest.raises(RunFailed, match=f"1 to {MAX_SYNCS} averages, not {count}"):
            check_turn(*faulty(lambda a, b: (a, b), count))
    check_turn(*faulty(lambda a, b: (b, a), MAX_SYNCS))


def test_an_edge_exchanges_one_model_and_holds_what_its_devices_hold():
    inner = fedavg(epochs=7)
    above = nest_algorithm(inner, no_rule(), TWO.local.fleet)
    cost = above.cost(ServerState(MODEL), whole_work(np.array([0, 0])), np.array([13, 4]))
    assert cost.samples.tolist() == [13.0, 4.0]
    assert cost.bytes_up.tolist() == cost.bytes_down.tolist() == [1000.0, 1000.0]
    assert above.name == "nothing" and above.priced_by_value
    assert above.local(0, {}).algorithm is inner


@pytest.mark.parametrize("algorithm", [consensus(remembers=True), local_only()], ids=["remembers", "personal"])
def test_what_devices_keep_for_themselves_cannot_be_nested(algorithm):
    with pytest.raises(BadInput, match=f"edge.use = 'nothing': '{algorithm.name}' keeps something on every device"):
        nest_algorithm(algorithm, no_rule(), TWO.local.fleet)


@pytest.mark.parametrize("way", ["up", "down"])
def test_edges_refuse_codecs_in_one_sentence(way):
    coded = with_variants(fedavg(), ((np.array([1]), with_compression(fedavg(), **{way: [int8()]})),), 2)
    with pytest.raises(BadInput, match="'nothing': up and down compress what a device and the server exchange"):
        nest_algorithm(coded, no_rule(), TWO.local.fleet)


@pytest.mark.parametrize("algorithm", [stale_fedavg(), fedbuff(), fedavg_plus()], ids=lambda a: a.name)
def test_what_counts_by_its_age_cannot_be_nested(algorithm):
    with pytest.raises(BadInput, match=f"edge.use = 'nothing': '{algorithm.name}' weighs reports by their staleness"):
        nest_algorithm(algorithm, no_rule(), TWO.local.fleet)
