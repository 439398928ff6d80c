"""Conformance of selectors and policies: they steer the real engine through small worlds of every kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import FedFleetError
from fedfleet.core.events import Event, ModelCommitted, RoundFailed, TasksSpent
from fedfleet.core.parts import Draw, Plan, Policy, Selector, State, SteadyDecide
from fedfleet.core.records import Assignments, Book, Decision, Ended, Ints, Roster, Stop
from fedfleet.core.rng import client_keys
from fedfleet.core.room import most_reports
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.pace.rounds import deadline, readiness, round_policy
from fedfleet.simulation.simulator import simulate
from fedfleet.testing.conformance import CheckLog, Conformance, fingerprint
from fedfleet.testing.surroundings import Surroundings, turns
from fedfleet.testing.toys import TrialWorld, consensus, consensus_start, opaque_executor, renamed_worlds, trial_worlds

_SEED = 11
_HORIZON = 30 * 86400.0
_PURE = "no chance without an address, no clock, no memory of its own"


def check_policy(policy: Policy, *, steps: int = 20_000, quiet: bool = False) -> Conformance:
    """A policy closes rounds in every world where clients report, asks and wakes within reason, and is a pure function.

    `steps` is how many events a world may take at most; one in which no client reports may end before any round does. What was
    checked is printed, unless `quiet`.
    """
    assert policy.cohort >= 1, "a policy must say how many it wants at once"
    log, around = CheckLog(f"policy {policy.name!r}"), Surroundings(policy)
    declared = None if policy.round_rules is None else round_policy(policy.name, policy.round_rules)
    for trial in trial_worlds(max(2 * policy.cohort, policy.cohort + 20)):
        decisions: list[tuple[Book, Decision]] = []

        def decide(book: Book, decisions: list[tuple[Book, Decision]] = decisions) -> Decision:
            decision = policy.decide(book)
            assert decision == policy.decide(book), f"the same book must give the same decision: {_PURE}"
            decisions.append((book, decision))
            return decision

        recording = replace(policy, decide=decide)
        with around(1, leaves_generators="decide"):
            ends = _round_ends(_plan(trial, uniform(), recording), trial, steps)
        if trial.answers:
            rounds, commits = len(ends), sum(isinstance(e, ModelCommitted) for e in ends)
            assert rounds >= 3, f"only {rounds} rounds ended where {trial.name}: does it wait for ever?"
            assert commits, f"no round was committed where {trial.name}: {ends[0]}"
        most, clients = policy.most_reports, len(trial.world.keys)
        largest = max((book.arrived for book, decision in decisions if decision.commit), default=0)
        assert most is None or largest <= most_reports(policy, clients), (
            f"it says that a commit has {most} reports at most, and one had {largest} where {trial.name}: correct most_reports and "
            "late_reports, since what a report may weigh follows from them, or leave them out"
        )
        for number, group in turns(decisions[::-1]):
            with around(number, leaves_generators="decide"):
                for book, decision in group:
                    assert policy.decide(book) == decision, (
                        f"the same book must give the same decision, in whatever order it is asked, at any time: {_PURE}; "
                        f"the book: {book}"
                    )
                    assert declared is None or _outcome(decision) == _outcome(declared.decide(book)), (
                        f"by its round_rules it would decide otherwise than it does; correct them, or leave them out: {book}"
                    )
                    _check_promise(policy, book)
        log.answer(repr([decision for _, decision in decisions]))
        log.checked(f"it works where {trial.name}")
    log.checked("the same book gives the same decision, in any order, with other global generators and clocks")
    if declared is not None:
        log.checked("it decides as its round_rules say")
    if isinstance(policy.decide, SteadyDecide):
        log.checked("it decides as its `steady` promises")
    return log.end(quiet)


def _check_promise(policy: Policy, book: Book) -> None:
    """As many arrivals as a policy says leave its decision as it says: the first and the last, of this round or of others."""
    if not isinstance(policy.decide, SteadyDecide):
        return
    arrivals, wake_at = policy.decide.steady(book)
    arrivals = min(arrivals, book.running)
    if wake_at is not None and book.now >= wake_at:
        return
    for n in {1, arrivals} if arrivals > 0 else ():
        for own in {0, min(n, book.own_running)}:
            later = book._replace(
                arrived=book.arrived + n, running=book.running - n, own_arrived=book.own_arrived + own,
                own_running=book.own_running - own, answered=False,
            )  # fmt: skip
            decision = policy.decide(later)
            assert not later.running or decision == Decision(wake_at=wake_at), (
                f"its `steady` says that {arrivals} arrivals change nothing, and after {n} it decides {decision}; say fewer: {book}"
            )


def _outcome(decision: Decision) -> tuple[int, bool, bool]:
    """What a decision does to the round: how many it asks, whether it commits, and whether it gives up."""
    return decision.ask, decision.commit, bool(decision.abandon)


def check_selector(selector: Selector, *, clients: int = 50, rounds: int = 12, quiet: bool = False) -> Conformance:
    """A selector picks from the roster in every world, keeps its state in named arrays, and is a pure function.

    It goes by what is known of clients and by their keys, never by their numbers. What was checked is printed, unless `quiet`.
    """
    assert not (selector.equal_chance and (selector.learn or selector.probe)), (
        "with equal_chance nothing that happened may decide, and this selector learns or probes"
    )
    log, around = CheckLog(f"selector {selector.name!r}"), Surroundings(selector)
    for trial in trial_worlds(clients):
        state = selector.initial(len(trial.world.keys))
        _check_state(state)
        # Rounds that do not wait for clients show the selector an empty roster too.
        for policy in (readiness(7, min_clients=1, if_few="fail"), deadline(3, seconds=30.0, min_clients=1)):
            answers: _Answers = []
            picks: list[Ints] = []
            with around(1, leaves_generators="a selector"):
                ends = _round_ends(_plan(trial, _guard(selector, answers, picks), policy, rounds), trial, 10_000)
            if trial.alike and picks:
                possible = min(policy.cohort, np.count_nonzero(selector.may_ask(clients)))
                assert len(picks[0]) >= possible, (
                    f"in the first round, where {trial.name}, it was asked for {policy.cohort} clients and picked {len(picks[0])}: "
                    "pick as many as are wanted and there"
                )
            if trial.answers:
                commits = sum(isinstance(e, ModelCommitted) for e in ends)
                assert commits, f"no round could be committed where {trial.name}: {ends[:1]}"
            for number, group in turns(answers[::-1]):
                with around(number, leaves_generators="a selector"):
                    for again, first in group:
                        assert fingerprint(again()) == first, (
                            "the same state, roster and address must give the same answer, in whatever order it is asked, at "
                            f"any time: {_PURE}"
                        )
            log.answer([first for _, first in answers])
        log.checked(f"it works where {trial.name}")
    log.checked("the same state, roster and address give the same answer, in any order, with other global generators and clocks")
    log.checked("its state is named arrays, which survive a checkpoint, and nothing that it is given is changed")
    if selector.members is None:
        _check_renaming(selector, clients, rounds)
        log.checked("renaming clients renames those that it picks, and changes nothing else")
    if selector.equal_chance:
        _check_chances(selector, clients)
        log.checked("every candidate has the same chance")
    return log.end(quiet)


# What a selector was asked, as functions that ask again, and the digest of what it answered.
_Answers = list[tuple[Callable[[], Any], str]]


def _guard(selector: Selector, answers: _Answers, picks: list[Ints] | None = None) -> Selector:
    """The selector with arrays that cannot be changed, every answer noted and every state looked at."""

    def note(state: State, ask: Callable[[State], Any]) -> Any:
        result = ask(state)
        answers.append((lambda: ask(thawed(state)), fingerprint(result)))
        return result

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        _lock(state, roster)
        assignments = note(state, lambda kept: selector.pick(kept, roster, n, draw))
        assert len(assignments.clients) <= n, f"asked for {n}, picked {len(assignments.clients)}"
        if picks is not None:
            picks.append(assignments.clients)
        return assignments

    def probe(state: State, roster: Roster, n: int, draw: Draw) -> tuple[Ints, str]:
        _lock(state, roster)
        assert selector.probe is not None
        look = selector.probe
        return note(state, lambda kept: look(kept, roster, n, draw))

    def learn(state: State, ended: Ended, now: float) -> State:
        assert selector.learn is not None
        _lock(state, ended)
        hear = selector.learn
        new_state = note(state, lambda kept: hear(kept, ended, now))
        _check_state(new_state)
        return new_state

    def charge(state: State, spent: TasksSpent) -> State:
        assert selector.charge is not None
        pay = selector.charge
        new_state = note(state, lambda kept: pay(kept, spent))
        _check_state(new_state)
        return new_state

    asks = {"probe": probe, "learn": learn, "charge": charge}
    return replace(selector, pick=pick, **{name: ask for name, ask in asks.items() if getattr(selector, name) is not None})


def thawed(state: State) -> State:
    """The state after a checkpoint."""
    return unpack_tree(pack_tree(dict(state))) if state else state


def _lock(state: State, columns: Roster | Ended) -> None:
    """Numpy refuses writes into what was given."""
    arrays = [getattr(columns, name) for name in ("clients", "keys", "samples", "tasks", "seconds") if hasattr(columns, name)]
    for array in (*state.values(), *arrays, *columns.stats.values()):
        array.setflags(write=False)


def _check_state(state: Any) -> None:
    assert isinstance(state, dict) and all(isinstance(v, np.ndarray) for v in state.values()), (  # pyright: ignore[reportUnknownVariableType]
        f"a selector's state must be named arrays, not {state!r}"
    )
    for name, column in state.items():  # pyright: ignore[reportUnknownVariableType]
        assert column.dtype.kind in "biuf", (
            f"column {name!r} of a selector's state must hold numbers, which a checkpoint keeps, and is of type {column.dtype}"
        )


def _check_renaming(selector: Selector, clients: int, rounds: int) -> None:
    """The same clients under other numbers: the same of them are picked, round by round."""
    here, there, order = renamed_worlds(clients)
    found: list[list[Ints]] = []
    for world in (here, there):
        picks: list[Ints] = []
        trial = TrialWorld("clients have other numbers", world, answers=True)
        _round_ends(_plan(trial, _guard(selector, [], picks), readiness(7, min_clients=1, if_few="fail"), rounds), trial, 10_000)
        found.append(picks)
    for round_number, (one, other) in enumerate(zip(found[0], found[1], strict=True)):
        was, now = sorted(one.tolist()), sorted(order[other].tolist())
        assert was == now, (
            f"a selector must not go by the numbers of clients: round {round_number} picks {was}, and when the same clients have "
            f"other numbers, those that were {now}; let hash_keys(draw.seed, name, roster.keys, draw.round, draw.first) break "
            "ties, or name the clients in `members`"
        )


def _check_chances(selector: Selector, clients: int) -> None:
    """Over many rounds every candidate is picked about equally often."""
    state, keys = selector.initial(clients), client_keys(clients)
    roster = Roster(np.arange(clients), keys, np.full(clients, 10, np.int64), {name: np.ones(clients) for name in selector.sees})
    n, draws = max(1, clients // 5), 400
    counts = np.zeros(clients)
    for i in range(draws):
        counts[selector.pick(state, roster, n, Draw(_SEED, i, n * i)).clients] += 1
    share = counts.sum() / draws / clients
    spread = float(((counts - draws * share) ** 2).sum() / max(draws * share * (1 - share), 1e-9))
    # Chi square, as far from its mean as it comes once in millions of times.
    assert spread < clients + 6 * (2 * clients) ** 0.5, (
        f"it says equal_chance, and in {draws} rounds some were picked {counts.max():g} times and others {counts.min():g}; leave "
        "equal_chance out, or draw evenly"
    )


def _plan(trial: TrialWorld, choose: Selector, pace: Policy, rounds: int = 12) -> Plan:
    stop = Stop(rounds=rounds, virtual_seconds=_HORIZON)
    return Plan(_SEED, consensus(), choose, pace, stop, consensus_start(), len(trial.world.keys))


class _TooManyEvents(Exception):
    """The world has been watched for as many events as were allowed."""


def _round_ends(plan: Plan, trial: TrialWorld, most: int) -> list[ModelCommitted | RoundFailed]:
    """How rounds ended in this world, within that many events; what the engine refuses is a rule that was broken."""
    result: list[ModelCommitted | RoundFailed] = []
    seen = 0

    def watch(events: Sequence[Event]) -> None:
        nonlocal seen
        seen += len(events)
        result.extend(e for e in events if isinstance(e, ModelCommitted | RoundFailed))
        if seen > most:
            raise _TooManyEvents

    try:
        simulate(plan, trial.world, opaque_executor(), watch=watch)
    except _TooManyEvents:
        pass
    except FedFleetError as error:
        raise AssertionError(f"where {trial.name}: {error}") from error
    return result
