"""Replay: feed recorded facts and assignments back, and recheck every outcome. Pure; fetching aggregates is passed in."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar, cast

import numpy as np

from fedfleet.core.commands import Command, Gather
from fedfleet.core.errors import BadInput, FedFleetError, RunFailed, printable
from fedfleet.core.events import CandidatesSeen, Event, Fact, ModelCommitted, Outcome, Probed, ReportsGathered, TasksSent
from fedfleet.core.parts import Draw, Plan, State
from fedfleet.core.records import Assignments, Ints, Keys, Roster
from fedfleet.engine.commands import pending_commands
from fedfleet.engine.coordinator import begin, step
from fedfleet.engine.state import Reaction, RunState

T = TypeVar("T")
Regather = Callable[[Gather, ReportsGathered], ReportsGathered]


class Contradiction(RunFailed):
    """An event of a record that cannot have happened, or does not follow; `at` is its place in the record."""

    def __init__(self, at: int, text: str) -> None:
        super().__init__(text)
        self.at = at


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The state that the facts lead to, how much was rechecked, and the commands that no fact has answered yet."""

    state: RunState
    facts: int
    outcomes: int
    commits: int
    pending: tuple[Command, ...]


def replay(
    plan: Plan,
    events: Iterable[Event],
    keys: Keys,
    sizes: Callable[[int], Ints],
    regather: Regather,
    handle_command: Callable[[Command], None],
    *,
    start: RunState | None = None,
    models: bool = True,
) -> ReplayResult:
    """Run the coordinator on recorded facts; the first outcome that differs from the record is a `Contradiction`.

    The journal keeps who was picked, not the roster, so that the pick is read from the record instead of made again.
    `regather` gives the aggregate of a commit: from what was kept, or by training again; `handle_command` sees all other commands,
    each before the fact that answers it. With `start`, the events are those that followed this state. Without `models`, names of
    models are believed: a replay that makes no models cannot know them.
    """
    log = list(events)
    recorded: Iterator[tuple[int, Outcome]] = ((i, e) for i, e in enumerate(log) if not isinstance(e, Fact))
    state, outcomes, commands = begin(plan) if start is None else Reaction(start, (), pending_commands(plan, start))
    rechecked, facts = _recheck(outcomes, recorded, models), 0
    gather: Gather | None = None
    for i, event in enumerate(log):
        if not isinstance(event, Fact):
            continue
        for command in commands:
            if isinstance(command, Gather):
                gather = command
            else:
                handle_command(command)
        commands = ()
        fact, scripted_plan = event, plan
        if isinstance(fact, CandidatesSeen | Probed) and plan.choose.probe is not None and _is_probe_unanswered(log, i):
            continue  # whom it would have probed is not known: the runtime has to ask again
        with _as_contradiction(i, event):
            if isinstance(fact, CandidatesSeen | Probed):
                fact, scripted_plan = _script_candidates(plan, log, i, keys, sizes(state.book.round))
            elif isinstance(fact, ReportsGathered):
                if gather is None:
                    raise RunFailed("the coordinator did not ask for reports")
                fact, gather = regather(gather, fact), None
            state, outcomes, commands = step(scripted_plan, state, fact)
        rechecked += _recheck(outcomes, recorded, models)
        facts += 1
    extra = next(recorded, None)
    if extra is not None:
        raise Contradiction(extra[0], f"{_describe(extra[1])} does not follow from the facts before it")
    return ReplayResult(state, facts, rechecked, state.book.version, pending_commands(plan, state))


@contextmanager
def _as_contradiction(at: int, event: Event) -> Generator[None]:
    """Whatever goes wrong inside says that this fact cannot have happened."""
    try:
        yield
    except (Contradiction, BadInput):  # what is lacking here is no fault of the record
        raise
    except Exception as error:  # falsified facts can make any part fail in any way
        text = str(error) if isinstance(error, FedFleetError) else f"{type(error).__name__}: {error}"
        raise Contradiction(at, f"{_describe(event)} cannot have happened: {text}") from error


def _is_probe_unanswered(log: list[Event], i: int) -> bool:
    """Were candidates seen, and a probe sent to some of them that the log does not answer any more?"""
    candidates, after = log[i], log[i + 1] if i + 1 < len(log) else None
    if not isinstance(candidates, CandidatesSeen) or not len(candidates.roster.clients) or isinstance(after, TasksSent | Probed):
        return False
    answered = any(isinstance(log[k], CandidatesSeen | Probed | TasksSent) for k in range(i + 1, len(log)))
    return not answered and (after is None or isinstance(after, Fact))


def _script_candidates(plan: Plan, log: list[Event], i: int, keys: Keys, sizes: Ints) -> tuple[CandidatesSeen | Probed, Plan]:
    """Candidates and a selector that lead to the recorded probe and pick, and to no others."""
    fact, none = log[i], np.zeros(0, np.int64)
    assert isinstance(fact, CandidatesSeen | Probed)
    pick = Assignments(none, none, np.zeros(0))
    probe_answer: tuple[Ints, str] = (none, "")
    if isinstance(fact, CandidatesSeen) and plan.choose.probe is not None:
        # Tasks may end between a probe and its answer, but no other candidates are seen.
        marks = (k for k in range(i + 1, len(log)) if isinstance(log[k], CandidatesSeen | Probed | TasksSent))
        answer = log[k] if (k := next(marks, None)) is not None else None
        if isinstance(answer, Probed) and k is not None:
            probe_answer, i = (answer.clients, answer.stat), k
    after = log[i + 1] if i + 1 < len(log) else None
    if isinstance(after, TasksSent):
        pick = Assignments(after.clients, after.steps, after.share, after.settings, after.due)

    probe = _constant(probe_answer) if len(probe_answer[0]) else None
    scripted_plan = replace(plan, choose=replace(plan.choose, pick=_constant(pick), probe=probe))
    if isinstance(fact, Probed):
        return fact, scripted_plan
    clients = np.union1d(pick.clients, probe_answer[0]).astype(np.int64)
    return CandidatesSeen(fact.time, Roster(clients, keys[clients], sizes[clients])), scripted_plan


def _constant(answer: T) -> Callable[[State, Roster, int, Draw], T]:
    """A function of a selector that knows the answer beforehand."""

    def say(state: State, roster: Roster, n: int, draw: Draw) -> T:
        del state, roster, n, draw
        return answer

    return say


def _recheck(outcomes: tuple[Outcome, ...], recorded: Iterator[tuple[int, Outcome]], models: bool) -> int:
    for outcome in outcomes:
        at, other = next(recorded, (-1, None))
        if other is None:
            raise Contradiction(
                -1, f"{type(outcome).__name__} at time {outcome.time} follows from the facts, but the journal ends before"
            )
        if not _same_outcome(outcome, other, models):
            raise Contradiction(at, f"the journal says {_describe(other)}, but {_describe(outcome)} follows from its facts")
    return len(outcomes)


def _same_outcome(a: Outcome, b: Outcome, models: bool) -> bool:
    if type(a) is not type(b):
        return False
    ignored = () if models else ("model_hash",)
    names = [f.name for f in fields(a) if f.compare and not (isinstance(a, ModelCommitted) and f.name in ignored)]
    return all(_equal(getattr(a, name), getattr(b, name)) for name in names)


def _equal(x: object, y: object) -> bool:
    if isinstance(x, Mapping) and isinstance(y, Mapping):
        a, b = cast(Mapping[str, Any], x), cast(Mapping[str, Any], y)
        return a.keys() == b.keys() and all(_equal(a[name], b[name]) for name in a)
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        return bool(np.array_equal(cast(Any, x), cast(Any, y)))
    return x == y


def _describe(event: Event) -> str:
    values = {f.name: getattr(event, f.name) for f in fields(event) if not isinstance(getattr(event, f.name), np.ndarray | Mapping)}
    return printable(f"{type(event).__name__}({', '.join(f'{n}={v!r}' for n, v in values.items())})")
