"""The plan of an edge's own run: each round is one average of a turn, and the turns come from the server.

The plan is made of the parts that any plan is made of. They look up what to do in the store of turns, which is on the disk before
they need it: so the run is resumed and replayed like any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfleet.core.aggregation import Aggregate, Fold
from fedfleet.core.edges import DRAW_TASK, GIVE_SAMPLES, MAX_SYNCS
from fedfleet.core.errors import Refused, RunFailed
from fedfleet.core.json_text import parse_json
from fedfleet.core.limits import MAX_SEED
from fedfleet.core.parts import Algorithm, Dataset, Draw, Job, Offer, Plan, Policy, Selector, State
from fedfleet.core.records import (
    FOLDED,
    NOTHING,
    Assignments,
    Book,
    Cost,
    Decision,
    Ended,
    Floats,
    Ints,
    Keys,
    Report,
    Roster,
    ServerState,
    Stop,
)
from fedfleet.core.sources import DataSource, DeviceSource, World
from fedfleet.core.trees import Tree, tree_nbytes
from fedfleet.network.edge.turn_store import TurnStore
from fedfleet.network.frontend.partial_sums import FoldLayout, layout_from_json
from fedfleet.world.states import always_on

CONFIG_FORMAT = 1
_SYNC = "sync"  # in the state of server and selector: which average is next
_RETRY_SECONDS = 1.0  # after candidates came of whom none is asked
_ROUNDS = 1 << 40  # more than an edge ever makes
_MOST_PLACES = 1 << 16


@dataclass(frozen=True, slots=True)
class EdgeConfig:
    """What a server tells an edge: whose edge it is, the places for devices with their keys and samples, how reports are added up,
    and the configuration of each device. `own_data`: devices may bring samples of their own;
    `moves_samples`: samples may change device, to which each device's owner must agree."""

    edge: int
    rule: str
    run: str
    seed: int
    keys: Keys
    sizes: Ints
    layout: FoldLayout
    denominator: float | None
    most_reports: int
    devices: tuple[dict[str, Any], ...]
    own_data: bool
    moves_samples: bool


def read_config(data: bytes) -> EdgeConfig:
    """The configuration in what a server sent; `Refused` if it is none of an edge."""
    try:
        table: dict[str, Any] = parse_json(data)
        if not isinstance(table, dict) or "edge" not in table:
            raise Refused("this client of the run is a device, not an edge; start it with fedfleet device")
        if table["form"] != CONFIG_FORMAT:
            raise Refused("this version of FedFleet cannot read the configuration; install the same version on both sides")
        keys = np.array([int(key, 16) for key in table["keys"]], np.uint64)
        sizes = np.array(table["sizes"], np.int64)
        devices = tuple({**table["shared"], **device} for device in table["devices"])
        if not 0 < len(keys) == len(sizes) == len(devices) <= _MOST_PLACES:
            raise Refused("the server names no devices, or not all of each")
        if not 0 <= table["seed"] <= MAX_SEED:
            raise Refused("the seed is out of its range")
        denominator = None if table["denominator"] is None else float(table["denominator"])
        return EdgeConfig(
            int(table["edge"]), str(table["rule"]), str(table["run"]), int(table["seed"]), keys, sizes,
            layout_from_json(table["layout"]), denominator, int(table["most_reports"]), devices,
            bool(table["own_data"]), bool(table["moves_samples"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise Refused(f"the configuration of this edge cannot be read ({type(error).__name__}: {error})") from None


def edge_plan(config: EdgeConfig, store: TurnStore) -> Plan:
    """The plan of the edge's own run."""
    fold, places = _fold(config), len(config.keys)
    layout = config.layout
    start: Tree = {name: np.zeros(leaf.shape, leaf.dtype) for name, leaf in layout.like.items()}
    algorithm = Algorithm(
        name=config.rule,
        init=lambda params: ServerState(params, {_SYNC: np.zeros(1, np.int64)}),
        offer=lambda server, client, settings: Offer(model_at(store, server)),
        local=lambda client, settings: _on_devices,
        fold=fold,
        apply=_moves(store),
        cost=_cost(layout),
        tick=_next_sync,
    )
    return Plan(config.seed, algorithm, _selector(store), _policy(store, places), _STOP, start, places)


_STOP = Stop(rounds=_ROUNDS, evaluate_every=_ROUNDS)


def edge_world(config: EdgeConfig) -> World:
    """What an edge's run knows of its devices: keys, and how many samples each holds."""

    def rows(client: int, split: str, round: int) -> Ints:
        del client, split, round
        raise RunFailed("internal error: an edge holds no samples; please report this")

    def no_seconds(clients: Ints, cost: Cost, start: float, tasks: Ints) -> Floats:
        del cost, start, tasks
        return np.full(len(clients), np.nan)

    none = np.zeros(0, np.int64)
    kinds = ["device"] * len(config.keys)
    data = DataSource(rows, lambda round: config.sizes, none, none)
    return World(config.keys, DeviceSource(no_seconds, kinds), always_on()(config.keys, config.seed), data)


def next_sync(server: ServerState) -> int:
    """Which average is next."""
    return int(server.extra[_SYNC][0])


def model_at(store: TurnStore, server: ServerState) -> Tree:
    """The model with which devices begin the next average: that of the server at the beginning of a turn, else the edge's own."""
    found = store.find(next_sync(server))
    if found is None or found[0].first != next_sync(server):
        return server.params
    return found[0].model


def wave_rows(store: TurnStore, sync: int, clients: Ints) -> list[bytes]:
    """The rows that each device trains on in an average, as messages have them; empty if each trains on all that it holds."""
    found = store.find(sync)
    assert found is not None
    of_slot = dict(zip(found[1].slots.tolist(), found[1].rows, strict=True))
    rows = [of_slot[client] for client in clients.tolist()]
    if all(some is None for some in rows):
        return []
    return [b"" if some is None else some.astype(np.uint32).tobytes() for some in rows]


def _fold(config: EdgeConfig) -> Fold:
    layout = config.layout
    return Fold(
        like=lambda server: layout.like,
        bound=lambda name: layout.scales[name].bound,
        total_weight=layout.total_weight,
        fine=lambda name: layout.scales[name].two_limbs,
        denominator=config.denominator,
        clip=layout.clip,
        most_reports=config.most_reports,
    )


def _moves(store: TurnStore) -> Callable[[ServerState, Aggregate], ServerState]:
    def apply(server: ServerState, aggregate: Aggregate) -> ServerState:
        before = model_at(store, server)
        found = store.find(next_sync(server))
        if found is not None and found[1].exchange:  # the model waits for the samples
            return _next_sync(ServerState(before, server.extra))
        params = {n: v + aggregate.mean[n] if n in aggregate.mean else v for n, v in before.items()}
        return _next_sync(ServerState(params, server.extra))

    return apply


def _next_sync(server: ServerState) -> ServerState:
    return ServerState(server.params, {_SYNC: server.extra[_SYNC] + 1})


def _on_devices(job: Job, dataset: Dataset) -> Report:
    del job, dataset
    raise RunFailed("internal error: an edge does not train itself; please report this")


def _cost(layout: FoldLayout) -> Callable[[ServerState, Assignments, Ints], Cost]:
    nbytes = float(tree_nbytes(layout.like))

    def cost(server: ServerState, assignments: Assignments, samples: Ints) -> Cost:
        del server
        each = np.full(len(assignments.clients), nbytes)
        return Cost(samples.astype(np.float64), each, each)

    return cost


def _selector(store: TurnStore) -> Selector:
    """Asks the devices of the next average; those that do not answer are left out."""

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        del n, draw
        sync = int(state[_SYNC][0])
        found = store.find(sync)
        if found is None:
            raise RunFailed("internal error: devices were asked before the server had asked for anything; please report this")
        stored, asked = found
        clients = asked.slots[np.isin(asked.slots, roster.clients)]
        if asked.exchange and len(clients) < len(asked.slots):  # without all of them nobody can train
            clients = clients[:0]
        count = len(clients)
        # All devices of an average draw their batches by one number, as in a simulation.
        number = float(stored.turn.task * MAX_SYNCS + sync - stored.first - stored.turn.exchanges)
        settings = {GIVE_SAMPLES if asked.exchange else DRAW_TASK: np.full(count, 1.0 if asked.exchange else number)}
        return Assignments(clients, np.full(count, asked.steps, np.int64), np.ones(count), settings)

    def learn(state: State, ended: Ended, now: float) -> State:
        del now
        return {_SYNC: state[_SYNC] + 1} if (ended.fate == FOLDED).any() else state

    def initial(clients: int) -> State:
        del clients
        return {_SYNC: np.zeros(1, np.int64)}

    return Selector("turn", pick, learn, initial=initial, by_reports=False)


def _policy(store: TurnStore, places: int) -> Policy:
    """Every average waits for all its devices, except those whose tasks are lost. An exchange goes on only if all devices gave."""

    def decide(book: Book) -> Decision:
        if book.asking or book.running:
            return NOTHING
        found = store.find(book.version)
        if book.arrived and book.lost and found is not None and found[1].exchange:
            return Decision(abandon="a device did not give its samples to the others")
        if book.arrived:
            return Decision(commit=True)
        if book.answered:  # nobody who is asked was there
            return Decision(wake_at=book.now + _RETRY_SECONDS)
        due = book.sent_at + _RETRY_SECONDS
        if book.lost and book.now < due:  # all tasks were lost at once
            return Decision(wake_at=due)
        return Decision(ask=places)

    return Policy("turn", decide, places, most_reports=places)


def device_config(config: EdgeConfig, place: int, *, brings_own: bool) -> bytes:
    """What the device at a place is told of its work."""
    table = config.devices[place]
    return compact_json({**table, "data": {"use": "own"}} if brings_own else table)


def compact_json(table: Any) -> bytes:
    """A table as the same bytes every time."""
    return json.dumps(table, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
