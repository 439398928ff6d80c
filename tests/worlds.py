"""Small worlds for tests: fleets as plain columns (so that a test can double, permute or inspect them), toy parts, events.

A fleet's times are integers, so that doubling and brute force are exact. `fleets` and `paces` are hypothesis strategies.
Nothing here needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fedfleet.choose.uniform import uniform
from fedfleet.core.events import Event, RunBegan
from fedfleet.core.intervals import Traces, traces
from fedfleet.core.parts import Algorithm, Plan, Policy, Selector
from fedfleet.core.records import NOTHING, Book, ClientScores, Cost, Decision, Floats, Ints, Keys, Roster, Stop
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import DeviceSource, World
from fedfleet.core.stages import STAGES
from fedfleet.pace.asynchronous import buffered as paced_by_buffer
from fedfleet.pace.asynchronous import semi_async
from fedfleet.pace.combinators import first_of, overcommit
from fedfleet.pace.rounds import IfFew, deadline, readiness
from fedfleet.pace.timeout import timeout
from fedfleet.simulation.simulator import Simulation, simulate
from fedfleet.store.noise_source import SEEDED, NoiseSource
from fedfleet.testing.toys import consensus, consensus_start, no_data, opaque_executor
from fedfleet.world.states import always_on, interval_states

Spans = tuple[tuple[float, float], ...]

# ---- fleets -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fleet:
    """Client by client: its key, the seconds of its shortest task (inf: it can do none), its period and ready spans.

    A trip takes one, two or three times the shortest, by its task id: durations vary and stay integers.
    """

    keys: Keys
    seconds: tuple[float, ...]
    periods: tuple[float, ...]
    ready: tuple[Spans, ...]

    def __len__(self) -> int:
        return len(self.keys)


def even_fleet(clients: int, seconds: float | Sequence[float] = 8.0) -> Fleet:
    """Clients that are always on."""
    each = tuple(seconds) if isinstance(seconds, Sequence) else (seconds,) * clients
    return Fleet(client_keys(clients), each, (16.0,) * clients, (((0.0, 16.0),),) * clients)


def doubled(fleet: Fleet) -> Fleet:
    """The same fleet with every duration and interval twice as long."""
    ready = tuple(tuple((2 * a, 2 * b) for a, b in spans) for spans in fleet.ready)
    return replace(fleet, seconds=tuple(2 * s for s in fleet.seconds), periods=tuple(2 * p for p in fleet.periods), ready=ready)


def renamed(fleet: Fleet, order: Sequence[int]) -> Fleet:
    """The fleet in which old client order[i] has the new index i, and takes key, device and states along."""
    columns = (fleet.seconds, fleet.periods, fleet.ready)
    return Fleet(fleet.keys[list(order)], *(tuple(column[i] for i in order) for column in columns))


def traces_of(spans: Sequence[Spans], periods: Sequence[float], starts: Sequence[float] | None = None) -> Traces:
    """Ready spans, client by client, as flat traces."""
    flat = np.array([span for own in spans for span in own], np.float64).reshape(-1, 2)
    offsets = np.concatenate([[0], np.cumsum([len(own) for own in spans])]).astype(np.int64)
    start = np.zeros(len(spans)) if starts is None else np.array(starts, np.float64)
    return traces(start, np.array(periods, np.float64), offsets, flat[:, 0].copy(), flat[:, 1].copy())


def devices_of(fleet: Fleet, *, steady: bool = False) -> DeviceSource:
    """The fleet's durations; `steady`: every trip takes the shortest time."""
    shortest = np.array(fleet.seconds)

    def seconds(clients: Ints, cost: Cost, start: float, tasks: Ints) -> Floats:
        return shortest[clients] * (1.0 if steady else 1.0 + tasks % 3)

    return DeviceSource(seconds, ["toy"] * len(fleet))


def world_of(fleet: Fleet, *, steady: bool = False) -> World:
    """The fleet as a world whose clients claim to hold data."""
    on = all(spans == ((0.0, period),) for spans, period in zip(fleet.ready, fleet.periods, strict=True))
    states = always_on()(fleet.keys, 0) if on else interval_states(traces_of(fleet.ready, fleet.periods))
    return World(fleet.keys, devices_of(fleet, steady=steady), states, no_data(len(fleet)))


@st.composite
def spans_within(draw: Callable[..., Any], period: int) -> Spans:
    """Sorted disjoint spans, at least one; neighbours may touch."""
    cuts = sorted(draw(st.sets(st.integers(0, period), min_size=2, max_size=8)))
    keep = draw(st.lists(st.booleans(), min_size=len(cuts) - 1, max_size=len(cuts) - 1))
    spans = [(float(a), float(b)) for a, b, kept in zip(cuts[:-1], cuts[1:], keep, strict=True) if kept]
    return tuple(spans) or ((float(cuts[0]), float(cuts[1])),)


@st.composite
def fleets(draw: Callable[..., Any], *, max_clients: int = 7) -> Fleet:
    """Random fleets: unlike speeds, some devices that can do nothing, and random ready spans."""
    n = draw(st.integers(3, max_clients))
    seconds = st.one_of(st.integers(1, 40).map(float), st.sampled_from([1.0, 8.0, math.inf]))
    periods = [draw(st.integers(4, 60)) for _ in range(n)]
    return Fleet(
        client_keys(n),
        tuple(draw(seconds) for _ in range(n)),
        tuple(float(p) for p in periods),
        tuple(draw(st.one_of(st.just(((0.0, float(p)),)), spans_within(p))) for p in periods),
    )


# ---- policies -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pace:
    """The numbers of a policy, from which it can be built at any scale of time."""

    kind: str
    cohort: int
    seconds: float
    t_break: float
    ready_share: float
    min_clients: int
    factor: float
    if_few: IfFew = "fail"
    max_staleness: int = 0

    def policy(self, scale: float = 1.0) -> Policy:
        """The policy with all its times multiplied by `scale`."""
        least = min(self.min_clients, self.cohort)
        common = {
            "t_break": self.t_break * scale, "min_clients": least, "min_share": 0.25, "if_few": self.if_few,
            "max_staleness": self.max_staleness,
        }  # fmt: skip
        if self.kind == "buffered":
            return paced_by_buffer(
                k=1 + self.min_clients, concurrency=self.cohort, max_staleness=self.max_staleness or None,
                lease=self.seconds * scale if self.factor > 1 else math.inf, refill=self.t_break * scale,
                batch=max(1, self.cohort - 2),
            )  # fmt: skip
        if self.kind == "eager_commits":
            return commits_at(self.cohort, max(1, self.cohort - 1), t_break=self.t_break * scale)
        if self.kind == "semi_async":
            return semi_async(
                self.seconds * scale, self.max_staleness, concurrency=self.cohort, refill=self.t_break * scale,
                lease=3 * self.seconds * scale if self.factor > 1 else None, batch=max(1, self.cohort - 2),
                if_few=self.if_few,
            )  # fmt: skip
        inner = self._round(scale, common)
        return inner if self.factor == 1.0 else overcommit(inner, factor=self.factor)

    def _round(self, scale: float, common: dict[str, Any]) -> Policy:
        seconds, patient = self.seconds * scale, {k: v for k, v in common.items() if k != "min_clients"}
        again = timeout(
            self.cohort, seconds=seconds, quiet_rounds=1 + self.min_clients, step=seconds / 4, floor=seconds / 2,
            ceiling=4 * seconds, most=self.min_clients, **patient,
        )  # fmt: skip
        waits = readiness(self.cohort, ready_share=self.ready_share, lease=2 * seconds if self.min_clients else math.inf, **common)
        match self.kind:
            case "readiness":
                return waits
            case "deadline":
                return deadline(self.cohort, seconds=seconds, **common)
            case "timeout":
                return again
            case "first_of":
                return first_of(again, first_of(waits, deadline(self.cohort, seconds=2.5 * seconds, **common)))
            case _:
                raise AssertionError(self.kind)


# Every policy of the registry but `overcommit`, which is put around those with rounds, and one that commits without dropping.
PACES = ("readiness", "deadline", "eager_commits", "buffered", "semi_async", "timeout", "first_of")


def paces(*kinds: str) -> st.SearchStrategy[Pace]:
    """Random policies; `eager_commits` commits without dropping, the others are the package's own."""
    return st.builds(
        Pace,
        kind=st.sampled_from(kinds or PACES),
        cohort=st.integers(1, 4),
        seconds=st.integers(1, 60).map(float),
        t_break=st.integers(1, 20).map(float),
        ready_share=st.sampled_from([0.25, 0.5, 0.75, 1.0]),
        min_clients=st.integers(0, 2),
        factor=st.sampled_from([1.0, 1.5, 2.0]),
        if_few=st.sampled_from(["fail", "wait"]),
        max_staleness=st.sampled_from([0, 0, 1, 2]),
    )


def commits_at(cohort: int, enough: int, *, t_break: float = 1.0, drop: int | None = None) -> Policy:
    """Commit when `enough` reports have come and let the others run on (or drop those `drop` versions old)."""

    def decide(book: Book) -> Decision:
        if book.asking:
            return NOTHING
        if book.arrived >= enough:
            return Decision(commit=True, drop=drop)
        if book.wanted == 0:
            start = book.opened_at + t_break
            return Decision(ask=cohort) if book.now >= start else Decision(wake_at=start)
        if book.running == 0:
            return Decision(commit=True) if book.arrived else Decision(abandon="nobody is left")
        return NOTHING

    return Policy("commits_at", decide, cohort)


def buffered(enough: int, concurrency: int, *, batch: int = 1, pause: float = 1.0, at_least: int = 0) -> Policy:
    """Commit whenever `enough` reports are there and keep `concurrency` tasks running, replaced `batch` at a time.

    With `at_least` it waits until so many clients can be asked.

    It needs no memory: what is on its way is in the book. Who finds too few candidates looks again after a pause, and so does
    who loses tasks at the very moment of sending them: the same devices would be asked again.
    """

    def decide(book: Book) -> Decision:
        if book.arrived >= enough:
            return Decision(commit=True)
        coming = book.wanted - book.selected if book.asking else 0
        missing = concurrency - book.running - coming
        if book.answered or (book.lost and book.now == book.sent_at):
            return Decision(wake_at=book.now + pause) if missing else NOTHING
        return Decision(ask=missing, at_least=at_least) if missing >= batch or (missing and not book.running) else NOTHING

    return Policy("buffered", decide, concurrency)


# ---- plans, runs, events ------------------------------------------------------------------------------------------


def toy_plan(
    pace: Policy,
    clients: int,
    *,
    algorithm: Algorithm | None = None,
    choose: Selector | None = None,
    stop: Stop | None = None,
    seed: int = 3,
) -> Plan:
    """A plan for the consensus toy."""
    return Plan(seed, algorithm or consensus(), choose or uniform(), pace, stop or Stop(rounds=4), consensus_start(), clients)


def events_of(plan: Plan, world: World, *, eager: bool = False, noising: NoiseSource = SEEDED) -> tuple[list[Event], Simulation]:
    """All events of a run, and where it ended."""
    seen: list[Event] = []
    end = simulate(plan, world, opaque_executor(), eager=eager, watch=seen.extend, noising=noising)
    return seen, end


def kinds_of(events: Iterable[Any]) -> list[str]:
    """The names of events or commands, in order."""
    return [type(event).__name__ for event in events]


def only(kind: type[Any], events: Iterable[Any]) -> list[Any]:
    """The events of one kind."""
    return [event for event in events if type(event) is kind]


def roster_of(*clients: int) -> Roster:
    """These clients as a roster, with the keys of a fleet of 0..n-1."""
    named = np.array(clients, np.int64)
    return Roster(named, client_keys(max(clients, default=0) + 1)[named], np.full(len(named), 10, np.int64))


def plain(event: Event, *, scale: float = 1.0, names: Sequence[int] | None = None) -> tuple[Any, ...]:
    """An event as comparable values: times multiplied by `scale`, clients replaced by names[client].

    The aggregate is left out (the hash of the committed model stands for it), and so are diagnostics.
    """
    shown: list[Any] = [type(event).__name__]
    for f in fields(event):
        value = getattr(event, f.name)
        if not f.compare or f.name == "aggregate":
            continue
        if f.name in ("time", "seconds"):
            value = _told(value * scale)
        elif f.name == "due" and value is not None:
            value = value * scale
        elif f.name == "spent":
            value = {name: column * (scale if name in (*STAGES, "joules") else 1.0) for name, column in value.items()}
        elif names is not None and f.name in ("client", "clients") and not isinstance(event, RunBegan):
            # RunBegan says how many clients there are, not which; scores are renamed below.
            value = value if value is None or isinstance(value, ClientScores) else np.asarray(names)[value]
        shown.append((f.name, _values(value, names)))
    return tuple(shown)


def _told(value: Any) -> Any:
    """NaN is unequal to itself."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _values(value: Any, names: Sequence[int] | None) -> Any:
    if isinstance(value, Roster):
        clients = value.clients if names is None else np.asarray(names)[value.clients]
        return tuple(sorted(zip(clients.tolist(), value.keys.tolist(), value.samples.tolist(), strict=True)))
    if isinstance(value, ClientScores):
        clients = value.clients if names is None else np.asarray(names)[value.clients]
        return tuple(sorted(zip(clients.tolist(), value.correct.tolist(), value.total.tolist(), strict=True)))
    if isinstance(value, np.ndarray | np.generic):
        return _told(value.tolist()) if np.ndim(value) == 0 else tuple(map(_told, value.tolist()))
    if isinstance(value, Mapping):
        return tuple(sorted((name, _values(v, names)) for name, v in value.items()))
    return value
