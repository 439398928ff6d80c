"""An edge's own plan: it asks those whom the turn names, waits for them, and begins each turn with the server's model."""

import numpy as np
import pytest

from fedfleet.core.aggregation import Aggregate
from fedfleet.core.edges import DRAW_TASK, GIVE_SAMPLES, MAX_SYNCS
from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Draw
from fedfleet.core.records import FOLDED, LOST, Book, Ended, Roster, ServerState
from fedfleet.network.device.shared_samples import pack_samples, unpack_samples
from fedfleet.network.edge.edge_loop import samples_by_place
from fedfleet.network.edge.edge_plan import EdgeConfig, edge_plan, edge_world, model_at, next_sync, wave_rows
from fedfleet.network.edge.turn_store import TurnReport, TurnStore
from fedfleet.network.frontend.partial_sums import FoldLayout
from fedfleet.network.protocol.turn_format import EdgeSync, EdgeTurn, turn_to_bytes

PLACES = 3
LIKE = {"w": np.zeros(2, np.float32)}
KEYS = np.arange(PLACES, dtype=np.uint64)


def stored(folder, *turns):
    """A store with these turns, whose models hold their numbers."""
    store = TurnStore(folder, PLACES)
    for n, turn in enumerate(turns):
        if n:
            store.finish(store.last, TurnReport(b"", 1.0, {}))
        store.begin(turn.task, b"%d" % n, {"w": np.full(2, float(n), np.float32)}, turn_to_bytes(turn))
    return store


def plan_with(store):
    from fedfleet.core import exact

    scale = exact.scale_for(2.0**10, 2.0**20)
    layout = FoldLayout(LIKE, {"w": scale}, 2.0**20, None)
    config = EdgeConfig(1, "hierfl", "test", 7, KEYS, np.array([4, 5, 6]), layout, None, PLACES, ({},) * PLACES, True, False)
    return edge_plan(config, store), edge_world(config)


ROWS = np.array([4, 2])
TURNS = (
    EdgeTurn(10, (EdgeSync(np.array([0, 2]), (None, None), 3), EdgeSync(np.array([1]), (ROWS,), 1))),
    EdgeTurn(12, (EdgeSync(np.array([0, 1, 2]), (None, None, None)),)),
)


def test_devices_of_an_average_are_asked_with_one_number_for_their_draws(tmp_path):
    plan, world = plan_with(stored(tmp_path, *TURNS))
    roster = Roster(np.arange(PLACES), world.keys, world.data.sizes(0), {})
    state, asked = plan.choose.initial(PLACES), []
    for _ in range(3):
        picked = plan.choose.pick(state, roster, PLACES, Draw(7, 0))
        asked.append((picked.clients.tolist(), picked.steps.tolist(), picked.settings[DRAW_TASK].tolist()))
        fate = np.full(len(picked.clients), FOLDED, np.int8)
        state = plan.choose.learn(state, Ended(picked.clients, picked.clients, np.zeros(len(fate)), fate, {}), 0.0)
    first = 10 * MAX_SYNCS
    assert asked == [
        ([0, 2], [3, 3], [first, first]),
        ([1], [1], [first + 1]),
        ([0, 1, 2], [0, 0, 0], [12 * MAX_SYNCS] * 3),
    ]


def test_an_average_that_failed_is_asked_again_and_those_who_are_away_are_left_out(tmp_path):
    plan, world = plan_with(stored(tmp_path, *TURNS))
    state = plan.choose.initial(PLACES)
    lost = Ended(np.arange(2), np.array([0, 2]), np.zeros(2), np.full(2, LOST, np.int8), {})
    after = plan.choose.learn(state, lost, 0.0)
    here = np.array([1, 2])
    picked = plan.choose.pick(after, Roster(here, world.keys[here], world.data.sizes(0)[here], {}), PLACES, Draw(7, 1))
    assert picked.clients.tolist() == [2]
    assert picked.settings[DRAW_TASK].tolist() == [10 * MAX_SYNCS]


def test_each_turn_begins_with_the_model_of_the_server(tmp_path):
    store = stored(tmp_path, *TURNS)
    plan, _ = plan_with(store)
    server, seen = plan.algorithm.init(plan.params), []
    for n in range(3):
        seen.append((next_sync(server), float(model_at(store, server)["w"][0])))
        assert plan.algorithm.offer(server, 0, {}).params is model_at(store, server)
        server = plan.algorithm.apply(server, Aggregate({"w": np.full(2, 10.0 * (n + 1), np.float32)}, 1.0, 1))
    # The second average goes on from the first one's model, the next turn from that of the server.
    assert seen == [(0, 0.0), (1, 10.0), (2, 1.0)]
    assert server.params["w"].tolist() == [31.0, 31.0]
    # Of a turn that is not there yet, there is only the edge's own model.
    assert model_at(store, server) is server.params
    assert next_sync(plan.algorithm.tick(server)) == 4


def test_rows_are_named_only_where_a_device_does_not_train_on_all(tmp_path):
    store = stored(tmp_path, *TURNS)
    assert wave_rows(store, 0, np.array([0, 2])) == []
    assert wave_rows(store, 1, np.array([1])) == [ROWS.astype(np.uint32).tobytes()]


def test_the_policy_waits_for_all_and_goes_on_without_those_that_are_lost(tmp_path):
    plan, _ = plan_with(stored(tmp_path, *TURNS))
    decide = plan.pace.decide
    assert decide(Book()).ask == PLACES
    assert decide(Book(asking=True)).ask == 0
    assert not decide(Book(now=5.0, running=1, selected=3, arrived=2)).commit
    assert decide(Book(now=5.0, selected=3, arrived=2, lost=1)).commit
    # Of lost tasks alone no average is made: they are asked again, and not at once.
    at_once, later = (Book(now=now, sent_at=5.0, selected=3, lost=3) for now in (5.2, 9.0))
    assert (decide(at_once).ask, decide(at_once).wake_at) == (0, 6.0)
    assert decide(later).ask == PLACES
    assert decide(Book(now=5.0, answered=True, asks=1)).wake_at == 6.0


def test_an_edge_is_no_fleet_of_the_size_of_the_run(tmp_path):
    plan, world = plan_with(stored(tmp_path, *TURNS))
    assert plan.clients == len(world.keys) == PLACES
    assert isinstance(plan.algorithm.init(plan.params), ServerState)


GIVEN = np.array([7, 9])
EXCHANGE = EdgeTurn(
    4,
    (EdgeSync(np.array([0, 2]), (GIVEN, np.array([5])), exchange=True), EdgeSync(np.array([1, 2]), (None, GIVEN))),
    gets={1: np.array([5]), 2: GIVEN},
)


def test_an_exchange_comes_before_the_average_and_moves_no_model(tmp_path):
    store = stored(tmp_path, EXCHANGE)
    plan, world = plan_with(store)
    roster = Roster(np.arange(PLACES), world.keys, world.data.sizes(0), {})
    server, state = plan.algorithm.init(plan.params), plan.choose.initial(PLACES)
    first = plan.choose.pick(state, roster, PLACES, Draw(7, 0))
    assert first.clients.tolist() == [0, 2]
    assert {name: column.tolist() for name, column in first.settings.items()} == {GIVE_SAMPLES: [1.0, 1.0]}
    server = plan.algorithm.apply(server, Aggregate({"w": np.ones(2, np.float32)}, 1.0, 1))
    assert (next_sync(server), server.params is store.last.model) == (1, True)
    fate = np.full(2, FOLDED, np.int8)
    state = plan.choose.learn(state, Ended(np.arange(2), np.array([0, 2]), np.zeros(2), fate, {}), 0.0)
    second = plan.choose.pick(state, roster, PLACES, Draw(7, 1))
    # The first average has the number that it has in a simulation, where the exchange is none.
    assert (second.clients.tolist(), second.settings[DRAW_TASK].tolist()) == ([1, 2], [4.0 * MAX_SYNCS] * 2)


def test_without_all_who_give_there_is_no_exchange(tmp_path):
    plan, world = plan_with(stored(tmp_path, EXCHANGE))
    here = np.array([0, 1])
    roster = Roster(here, world.keys[here], world.data.sizes(0)[here], {})
    assert not len(plan.choose.pick(plan.choose.initial(PLACES), roster, PLACES, Draw(7, 0)).clients)
    half = Book(now=5.0, selected=2, arrived=1, lost=1)
    assert "did not give" in plan.pace.decide(half).abandon
    assert plan.pace.decide(half._replace(version=1)).commit


def test_each_device_gets_what_others_gave_and_nothing_else():
    def samples(rows):
        return {"x": rows[:, None] * np.ones((1, 2), np.float32), "y": rows}

    payloads = {0: pack_samples(GIVEN, samples(GIVEN)), 2: pack_samples(np.array([5]), samples(np.array([5])))}
    got = samples_by_place(EXCHANGE, EXCHANGE.syncs[0], payloads)
    assert set(got) == {1, 2}
    for place, rows in EXCHANGE.gets.items():
        tree = unpack_samples(got[place], rows)
        assert tree["y"].tolist() == rows.tolist()
        assert tree["x"][:, 1].tolist() == rows.tolist()
    with pytest.raises(RunFailed, match="device 2 gave no samples"):
        samples_by_place(EXCHANGE, EXCHANGE.syncs[0], {0: payloads[0]})
    for bad in (payloads[2], b"", payloads[0][:-1]):
        with pytest.raises(RunFailed, match="device 0 gave cannot be used"):
            samples_by_place(EXCHANGE, EXCHANGE.syncs[0], {0: bad, 2: payloads[2]})
