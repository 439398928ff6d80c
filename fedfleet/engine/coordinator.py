"""The coordinator: `begin(plan)` and `step(plan, state, fact)`, pure functions and the only decision makers.

A round: the policy asks, candidates are seen, the selector picks, tasks go out; as they end the policy is consulted;
it commits (reports are gathered, folded, applied) or abandons the round; the model is evaluated; a stopping rule may
end the run; the next round opens.
"""

from __future__ import annotations

from typing import assert_never

import numpy as np
from immutables import Map

from fedfleet.core.charging import cost_of, settings_at
from fedfleet.core.commands import Command, Evaluate, FindCandidates, Forget, Gather, Probe, Send, WakeAt
from fedfleet.core.cost import scaled
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import (
    CandidatesSeen,
    Evaluated,
    Fact,
    ModelCommitted,
    Outcome,
    Probed,
    ReportRejected,
    ReportsGathered,
    RoundFailed,
    RunBegan,
    TaskArrived,
    TaskLost,
    TasksSent,
    TimerFired,
)
from fedfleet.core.folding import finish
from fedfleet.core.parts import Draw, Plan
from fedfleet.core.records import FOLDED, LOST, NOTHING, Book, Context, Decision, Ints, Roster, Wave
from fedfleet.core.trees import content_hash
from fedfleet.engine import ending
from fedfleet.engine.book import changed, dropped, learnt, next_round, sent_out, with_book
from fedfleet.engine.state import Ending, Phase, RunState, Step, endings

FACTS_PER_INSTANT = 1000
# A coordinator that asks and abandons in turn within one consultation is caught after so many turns.
_TURNS = 100


def begin(plan: Plan) -> Step:
    """The state before the first fact; the untrained model is evaluated first, so that every curve has a start."""
    server = plan.algorithm.init(plan.params)
    state = RunState(server, plan.choose.initial, Book(), Map(), phase=Phase.EVALUATING)
    began = RunBegan(0.0, plan.seed, plan.clients, plan.spec_digest, content_hash(server.params))
    return Step(state, (began,), (Evaluate(0, server, clients=False),))


def step(plan: Plan, state: RunState, fact: Fact) -> Step:
    """The next state, the outcomes and the commands that follow from one fact."""
    if fact.time < state.book.now:
        raise RunFailed(
            f"time fell from {state.book.now} to {fact.time} at {type(fact).__name__}: the runtime is broken"
        )
    if state.phase is Phase.DONE:
        raise RunFailed(f"{type(fact).__name__} after the run had ended: the runtime is broken")
    if isinstance(fact, (TaskArrived, TaskLost)):
        return _task_ended(plan, state, fact)
    state = _guard_zeno(plan, state, fact)
    match fact:
        case CandidatesSeen():
            return _candidates_seen(plan, state, fact)
        case Probed():
            return _probed(plan, state, fact)
        case TimerFired():
            return _timer_fired(plan, state, fact)
        case ReportsGathered():
            return _reports_gathered(plan, state, fact)
        case Evaluated():
            return _evaluated(plan, state, fact)
        case _:
            assert_never(fact)


# ---- task ends: the hot path -------------------------------------------------------------------------------------


def _task_ended(plan: Plan, state: RunState, fact: TaskArrived | TaskLost) -> Step:
    wave = state.running.get(fact.task)
    if wave is None:
        raise RunFailed(f"task {fact.task} of client {fact.client} ended, but it is not running: reported twice?")
    b = state.book
    came = type(fact) is TaskArrived
    book = Book(
        fact.time, b.round, b.version, b.opened_at, b.sent_at, b.wanted, b.selected,
        b.arrived + came, b.lost + (not came), b.running - 1, b.asking,
    )  # fmt: skip
    ended = Ending(state.ended, fact.task, wave, fact.seconds, FOLDED if came else LOST)
    state = RunState(
        state.server, state.selector, book, state.running.delete(fact.task), ended, state.gathering, state.roster,
        state.phase, state.next_task, state.wake, state.progress, 0 if fact.time > b.now else state.instant, state.reason,
    )  # fmt: skip
    # A wake-up is due at this very instant: by then everyone who arrives now is there, and the policy sees them together.
    if state.phase is not Phase.OPEN or fact.time == state.wake:
        return Step(state)
    return _consult(plan, state)


# ---- asking ------------------------------------------------------------------------------------------------------


def _candidates_seen(plan: Plan, state: RunState, fact: CandidatesSeen) -> Step:
    if not state.book.asking:
        raise RunFailed("candidates were reported without being asked for: the runtime is broken")
    state = with_book(state, now=fact.time)
    if state.phase is Phase.ENDING:
        return Step(with_book(state, asking=False))  # they were asked for before the end; nobody is sent out any more
    roster, wanted, draw = fact.roster, state.book.wanted - state.book.selected, Draw(plan.seed, state.book.round)
    if plan.choose.probe is not None and len(roster.clients):
        clients, stat = plan.choose.probe(state.selector, roster, wanted, draw)
        if len(clients) and _places(roster, clients) is None:
            raise RunFailed(f"selector {plan.choose.name!r} probes clients that are not on the roster")
        if len(clients):
            return Step(changed(state, roster=roster), (), (Probe(clients, stat, state.server),))
    return _pick(plan, state, roster)


def _probed(plan: Plan, state: RunState, fact: Probed) -> Step:
    roster = state.roster
    if roster is None:
        raise RunFailed("a probe was answered that nobody asked for: the runtime is broken")
    if state.phase is Phase.ENDING:
        return Step(changed(with_book(state, now=fact.time, asking=False), roster=None))
    column = np.full(len(roster.clients), np.nan)
    where = {int(c): i for i, c in enumerate(roster.clients)}
    for client, value in zip(fact.clients, fact.values, strict=True):
        column[where[int(client)]] = value
    seen = Roster(roster.clients, roster.keys, roster.samples, {**roster.stats, fact.stat: column})
    return _pick(plan, changed(with_book(state, now=fact.time), roster=None), seen)


def _pick(plan: Plan, state: RunState, roster: Roster) -> Step:
    book = state.book
    wanted = book.wanted - book.selected
    asked = plan.choose.pick(state.selector, roster, min(wanted, len(roster.clients)), Draw(plan.seed, book.round))
    n = len(asked.clients)
    if n == 0:
        return _consult(plan, with_book(state, asking=False, answered=True))
    at = _places(roster, asked.clients)
    if at is None or n > wanted or len(np.unique(asked.clients)) != n or not n == len(asked.steps) == len(asked.share):
        raise RunFailed(
            f"selector {plan.choose.name!r} picked {n} of {wanted} wanted, a client twice, or one not on the roster"
        )
    cost = scaled(cost_of(plan.algorithm, state.server, asked, roster.samples[at]), plan.byte_scale)
    wave = Wave(state.next_task, book.round, book.version, book.now, asked, roster.keys[at], cost, state.server)
    sent = TasksSent(
        book.now,
        book.round,
        book.version,
        wave.first,
        asked.clients,
        asked.steps,
        asked.share,
        cost.samples,
        cost.bytes_down,
    )
    state = with_book(
        sent_out(state, wave), asking=False, answered=True, sent_at=book.now,
        selected=book.selected + n, running=book.running + n,
    )  # fmt: skip
    after = _consult(plan, state)
    return Step(after.state, (sent, *after.outcomes), (Send(wave), *after.commands))


def _places(roster: Roster, clients: Ints) -> Ints | None:
    """Where these clients stand on the roster; None if one does not."""
    if not len(roster.clients):
        return None
    at = np.minimum(np.searchsorted(roster.clients, clients), len(roster.clients) - 1)
    return at if np.array_equal(roster.clients[at], clients) else None


# ---- consulting the policy ---------------------------------------------------------------------------------------


def _timer_fired(plan: Plan, state: RunState, fact: TimerFired) -> Step:
    state = changed(with_book(state, now=fact.time, answered=False), wake=None)
    if state.phase is not Phase.OPEN:
        return Step(state)  # what is awaited will look at the clock when it comes
    if fact.time >= plan.stop.virtual_seconds:
        return ending.start(state, "virtual_seconds")
    return _consult(plan, state)


def _consult(plan: Plan, state: RunState) -> Step:
    """Ask the policy until it has nothing more to say about this instant."""
    if state.phase is not Phase.OPEN:
        return Step(state)  # candidates can come while reports are gathered: the policy is asked when that is done
    decision = plan.pace.decide(state.book)
    if (decision is NOTHING or decision == NOTHING) and state.wake is not None:
        return Step(state)  # the usual answer: go on waiting
    outcomes: tuple[Outcome, ...] = ()
    commands: tuple[Command, ...] = ()
    for _ in range(_TURNS):
        if decision.drop is not None:
            state, gone = dropped(state, decision.drop)
            if gone is not None:
                outcomes, commands = (*outcomes, gone), (*commands, Forget(gone.tasks, gone.clients))
        if not (decision.abandon or decision.commit):
            state, more = _ask_and_wake(plan, state, decision)
            return Step(state, outcomes, commands + more)
        closed = _abandon(plan, state, decision.abandon) if decision.abandon else _gather(state)
        outcomes, commands, state = outcomes + closed.outcomes, commands + closed.commands, closed.state
        if state.phase is not Phase.OPEN:
            return Step(state, outcomes, commands)
        decision = plan.pace.decide(state.book)
    raise RunFailed(
        f"policy {plan.pace.name!r} abandons round after round at time {state.book.now} without letting time pass"
    )


def _ask_and_wake(plan: Plan, state: RunState, decision: Decision) -> tuple[RunState, tuple[Command, ...]]:
    book, commands = state.book, ()
    if decision.ask > 0 and not book.asking:
        if book.answered:
            raise RunFailed(
                f"policy {plan.pace.name!r} asks for candidates in reply to candidates at time {book.now}; let it wake later"
            )
        state = with_book(state, asking=True, wanted=book.selected + decision.ask)
        commands = (FindCandidates(decision.ask),)
    if decision.wake_at is not None and not decision.wake_at > book.now:
        raise RunFailed(f"policy {plan.pace.name!r} wants to wake at {decision.wake_at}, which is not after {book.now}")
    horizon = plan.stop.virtual_seconds  # without a wish of its own, what was agreed before stands
    wake = min(decision.wake_at, horizon) if decision.wake_at is not None else state.wake or horizon
    if wake != state.wake:
        state, commands = changed(state, wake=wake), (*commands, WakeAt(wake))
    return state, commands


def _abandon(plan: Plan, state: RunState, reason: str) -> Step:
    """End the round and go on with the old model."""
    failed = RoundFailed(state.book.now, state.book.round, reason)
    came = np.array([e.task for e in endings(state.ended) if e.fate == FOLDED], np.int64)
    forget = (Forget(came, came[:0]),) if len(came) else ()  # their clients are free already
    after = _round_over(plan, learnt(plan, state, None))
    return Step(after.state, (failed, *after.outcomes), forget + after.commands)


def _gather(state: RunState) -> Step:
    """End the round by folding what has arrived."""
    came = [e for e in endings(state.ended) if e.fate == FOLDED]
    gather = Gather(
        tuple(e.task for e in came),
        tuple(e.wave for e in came),
        tuple(_context(state, e) for e in came),
        state.server,
    )
    state = with_book(changed(state, gathering=state.ended, ended=None, phase=Phase.GATHERING), arrived=0)
    return Step(state, (), (gather,))


def _context(state: RunState, e: Ending) -> Context:
    client = int(e.wave.asked.clients[e.task - e.wave.first])
    settings = settings_at(e.wave.asked, e.task - e.wave.first)
    return Context(state.book.version - e.wave.version, e.seconds, client, settings, e.task)


# ---- folding, evaluating, stopping -------------------------------------------------------------------------------


def _reports_gathered(plan: Plan, state: RunState, fact: ReportsGathered) -> Step:
    if state.phase is not Phase.GATHERING:
        raise RunFailed("reports were gathered that nobody asked for: the runtime is broken")
    state = changed(with_book(state, now=fact.time), phase=Phase.OPEN)
    rejected = tuple(ReportRejected(fact.time, r.task, r.client, r.reason) for r in fact.rejected)
    aggregate = finish(plan.algorithm.fold, fact.aggregate) if fact.aggregate is not None else None
    book = state.book
    if aggregate is None:
        failed = RoundFailed(fact.time, book.round, "no report could be folded")
        after = _open_next(plan, learnt(plan, state, fact))
        return Step(after.state, (*rejected, failed, *after.outcomes), after.commands)
    server = plan.algorithm.apply(state.server, aggregate)
    loss = fact.stats.get("loss")
    committed = ModelCommitted(
        fact.time, book.round, book.version + 1, content_hash(server.params), len(fact.tasks),
        float(np.mean(loss)) if loss is not None and len(loss) else float("nan"),
    )  # fmt: skip
    state = learnt(plan, with_book(changed(state, server=server), version=book.version + 1), fact)
    after = _open_next(plan, state)
    return Step(after.state, (*rejected, committed, *after.outcomes), after.commands)


def _round_over(plan: Plan, state: RunState) -> Step:
    """A round has ended: stop, evaluate, or open the next."""
    state = next_round(state)
    reason = ending.limit_reached(plan, state)
    if reason:
        return ending.start(state, reason)
    version = state.book.version
    if version != state.progress.evaluated and version % plan.stop.evaluate_every == 0:
        return Step(changed(state, phase=Phase.EVALUATING), (), (Evaluate(version, state.server, clients=False),))
    return Step(state)


def _open_next(plan: Plan, state: RunState) -> Step:
    after = _round_over(plan, state)
    if after.state.phase is not Phase.OPEN:
        return after
    more = _consult(plan, after.state)
    return Step(more.state, after.outcomes + more.outcomes, after.commands + more.commands)


def _evaluated(plan: Plan, state: RunState, fact: Evaluated) -> Step:
    state = with_book(state, now=fact.time)
    if state.phase is Phase.ENDING:
        return ending.finish(state)
    if state.phase is not Phase.EVALUATING:
        raise RunFailed(f"model {fact.version} was evaluated without being asked for: the runtime is broken")
    state = changed(state, phase=Phase.OPEN, progress=ending.progressed(plan, state.progress, fact))
    reason = ending.goal_reached(plan, state, fact) or ending.limit_reached(plan, state)
    if reason:
        return ending.start(state, reason)
    return _consult(plan, state)


def _guard_zeno(plan: Plan, state: RunState, fact: Fact) -> RunState:
    count = state.instant + 1 if fact.time == state.book.now else 0
    if count > FACTS_PER_INSTANT:
        raise RunFailed(
            f"more than {FACTS_PER_INSTANT} facts at time {fact.time} without time passing: "
            f"policy {plan.pace.name!r} or selector {plan.choose.name!r} keeps asking"
        )
    return changed(state, instant=count)
