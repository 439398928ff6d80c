"""Consulting the policy: what it decides becomes asks, wake-ups, dropped tasks, and rounds that close."""

from __future__ import annotations

import math

import numpy as np

from fedfleet.core.commands import Command, FindCandidates, Forget, WakeAt
from fedfleet.core.errors import FedFleetError, RunFailed, error_context, part_error
from fedfleet.core.events import Outcome, PaceSet, RoundFailed
from fedfleet.core.parts import Plan
from fedfleet.core.records import FOLDED, Decision
from fedfleet.engine import stop_rules
from fedfleet.engine.book import drop_tasks, next_round, update_selector, with_book
from fedfleet.engine.commands import evaluate_command, gather_command, request_account
from fedfleet.engine.state import Phase, Reaction, RunState, change, ended_columns, mark_overtaken

# A policy that abandons and asks in turn within one consultation is stopped after this number of turns.
_MAX_TURNS = 100


def consult(plan: Plan, state: RunState) -> Reaction:
    """Ask the policy until it has nothing more to say about this instant."""
    if state.phase is not Phase.OPEN:
        # Candidates can come while reports are gathered: the policy is asked when that is done.
        return Reaction(mark_overtaken(state))
    book = state.book
    try:
        decision = plan.pace.decide(book)
        ask, wake_at, drop, commit, abandon, _, before, keep, _ = decision
    except FedFleetError:
        raise
    except Exception as error:  # spelt out, since it is the hot path
        raise part_error(policy_context(plan, state), error) from error
    # The usual answer, once for every task that ends: go on waiting as agreed.
    quiet = not (ask or commit or abandon) and drop is before is keep is None and (book.running or book.asking)
    if quiet and state.wake == (plan.stop.virtual_seconds if wake_at is None else wake_at):
        return Reaction(state)
    return _apply_decisions(plan, state, decision)


def _apply_decisions(plan: Plan, state: RunState, decision: Decision) -> Reaction:
    outcomes: tuple[Outcome, ...] = ()
    commands: tuple[Command, ...] = ()
    for _ in range(_MAX_TURNS):
        _check(plan, state, decision)
        if decision.keep is not None:
            # Values of the policy's memory that it publishes, where they change.
            now, old, new = state.book.now, state.book.kept, decision.keep
            outcomes = (*outcomes, *(PaceSet(now, name, new[at]) for name, at in plan.pace.shows if new[at] != old[at]))
            state = with_book(state, kept=new)
        if decision.drop is not None or decision.drop_before is not None:
            state, drop_event = drop_tasks(state, decision.drop, decision.drop_before)
            if drop_event is not None:
                outcomes, commands = (*outcomes, drop_event), (*commands, Forget(drop_event.tasks, drop_event.clients))
        if not (decision.abandon or decision.commit):
            state, more = _ask_and_wake(plan, state, decision)
            return Reaction(state, outcomes, commands + more)
        closed = _abandon(plan, state, decision.abandon) if decision.abandon else _gather(state)
        outcomes, commands, state = outcomes + closed.outcomes, commands + closed.commands, closed.state
        if state.phase is not Phase.OPEN:
            return Reaction(state, outcomes, commands)
        with error_context(policy_context(plan, state)):
            decision = plan.pace.decide(state.book)
    raise RunFailed(f"policy {plan.pace.name!r} abandons round after round at time {state.book.now} without letting time pass")


def _check(plan: Plan, state: RunState, decision: Decision) -> None:
    """Decisions that cannot be carried out name the policy."""
    book, name = state.book, plan.pace.name
    if decision.commit and decision.abandon:
        raise RunFailed(f"policy {name!r} commits and abandons the same round at time {book.now}")
    if decision.commit and not book.arrived:
        raise RunFailed(f"policy {name!r} commits at time {book.now}, but nothing has arrived")
    if decision.at_least < 0:
        raise RunFailed(f"policy {name!r} wants at least {decision.at_least} candidates at time {book.now}")
    if decision.wake_at is not None and not decision.wake_at > book.now:
        raise RunFailed(f"policy {name!r} wants to wake at {decision.wake_at}, which is not after {book.now}")


def _ask_and_wake(plan: Plan, state: RunState, decision: Decision) -> tuple[RunState, tuple[Command, ...]]:
    book, commands = state.book, ()
    if decision.ask > 0 and book.asking:  # the answer that is awaited serves both
        # Probed clients have been seen already: the request waits for no further client.
        least = max(state.at_least, decision.at_least) if state.probe is None else 0
        state = change(state, others=state.others or decision.others, at_least=least)
        state = with_book(state, wanted=book.wanted + decision.ask)
    elif decision.ask > 0:
        if book.answered:
            raise RunFailed(
                f"policy {plan.pace.name!r} asks for candidates again as soon as it has received some, "
                f"at time {book.now}; let it wake later"
            )
        state = change(state, others=decision.others, at_least=decision.at_least)
        state = with_book(state, asking=True, wanted=book.selected + decision.ask)
        commands = (FindCandidates(decision.ask, decision.at_least),)
    wake = decision.wake_at if decision.wake_at is not None else math.inf
    if wake == math.inf and not state.book.running and not state.book.asking:
        raise RunFailed(
            f"policy {plan.pace.name!r} waits forever at time {book.now}: no task is running, no candidates are requested, "
            "and it wants no wake-up"
        )
    wake = min(wake, plan.stop.virtual_seconds)
    if wake != state.wake:
        state = change(state, wake=wake)
        commands = (*commands, WakeAt(wake if state.look is None else min(wake, state.look)))
    return state, commands


def _abandon(plan: Plan, state: RunState, reason: str) -> Reaction:
    """End the round and go on with the old model."""
    failed = RoundFailed(state.book.now, state.book.round, reason)
    columns = ended_columns(state.ended)
    arrived = np.array([task for task, fate in zip(columns.tasks, columns.fates, strict=True) if fate == FOLDED], np.int64)
    forget = (Forget(arrived, arrived[:0]),) if len(arrived) else ()  # their clients are free already
    state, account = request_account(state, state.ended, columns)
    after = _end_round(plan, update_selector(plan, state, None))
    return Reaction(after.state, (failed, *after.outcomes), account + forget + after.commands)


def _gather(state: RunState) -> Reaction:
    """End the round by folding what has arrived."""
    state = change(state, gathering=state.ended, ended=None, phase=Phase.GATHERING)
    columns = ended_columns(state.gathering)
    state, account = request_account(state, state.gathering, columns)
    return Reaction(with_book(state, arrived=0, own_arrived=0), (), (*account, gather_command(state, columns)))


def open_next_round(plan: Plan, state: RunState) -> Reaction:
    """A round has ended with an answer: open the next, unless the run is over or its model has to be tried first."""
    after = _end_round(plan, state)
    if after.state.phase is not Phase.OPEN:
        return after
    more = consult(plan, after.state)
    return Reaction(more.state, after.outcomes + more.outcomes, after.commands + more.commands)


def _end_round(plan: Plan, state: RunState) -> Reaction:
    state = next_round(state)
    reason = stop_rules.limit_reason(plan, state)
    if reason:
        return stop_rules.start_ending(state, reason)
    if stop_rules.evaluation_due(plan, state):
        state = change(state, phase=Phase.EVALUATING)
        return Reaction(state, (), (evaluate_command(state),))
    return Reaction(state)


def policy_context(plan: Plan, state: RunState) -> str:
    """Which policy an error comes from, and when."""
    return f"policy {plan.pace.name!r}, asked at time {state.book.now} in round {state.book.round},"
