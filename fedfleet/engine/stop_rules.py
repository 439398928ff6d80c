"""When and how a run ends: the stopping rules, the last evaluation, the last event."""

from __future__ import annotations

import math
from dataclasses import replace

from fedfleet.core.commands import Command, Finish, Forget
from fedfleet.core.events import Evaluated, Outcome, RunEnded
from fedfleet.core.kinds import SCORE_NAMES
from fedfleet.core.limits import read_target
from fedfleet.core.parts import Plan
from fedfleet.core.records import EvalScore, Score
from fedfleet.engine.book import drop_tasks
from fedfleet.engine.commands import evaluate_command, request_account
from fedfleet.engine.state import Phase, Progress, Reaction, RunState

_ROUNDING = 1e-6  # of an interval between two looks: a multiple of it divided by it is nearly whole


def limit_reason(plan: Plan, state: RunState) -> str:
    """The countable limit that has been reached at the end of a round, else nothing."""
    stop, book = plan.stop, state.book
    if book.now >= stop.virtual_seconds:
        return "virtual_seconds"
    if stop.commits is not None and book.version >= stop.commits:
        return "commits"  # before rounds: a spec that sets both wants that many models, and has them
    if book.round >= stop.rounds:
        return "rounds"
    if stop.updates is not None and state.progress.updates >= stop.updates:
        return "updates"
    return ""


def update_progress(plan: Plan, progress: Progress, fact: Evaluated) -> Progress:
    """Progress after an evaluation: only a gain of more than min_delta counts as one; a model counts once, however often."""
    if progress.evaluated == fact.version:
        return progress
    accuracy = fact.correct / fact.total if fact.total else 0.0
    score = EvalScore(Score(fact.correct, fact.total, fact.loss, fact.measures), fact.unseen)
    if accuracy > progress.best + plan.stop.min_delta:
        return replace(progress, best=accuracy, since=0, evaluated=fact.version, tried=score)
    return replace(progress, since=progress.since + 1, evaluated=fact.version, tried=score)


def evaluation_due(plan: Plan, state: RunState) -> bool:
    """Is the model looked at now that a round is over? It is after that many commits, if it is new, and after that many rounds."""
    stop, version = plan.stop, state.book.version
    new = version != state.progress.evaluated and version % stop.evaluate_every == 0
    return new or (stop.evaluate_attempts is not None and state.book.round % stop.evaluate_attempts == 0)


def next_evaluation_time(plan: Plan, last: float = 0.0) -> float | None:
    """When the model is looked at next after this look, where that goes by time; never at the end, which has its own.

    On a real clock a look may come late; those that were due meanwhile are left out.
    """
    every = plan.stop.evaluate_seconds
    if every is None:
        return None
    moment = every * (math.floor(last / every + _ROUNDING) + 1)
    return moment if last < moment < plan.stop.virtual_seconds else None


def goal_reason(plan: Plan, state: RunState, fact: Evaluated) -> str:
    """The rule about accuracy that ends the run, else nothing."""
    stop = plan.stop
    if stop.target_accuracy is not None and fact.total and fact.correct / fact.total >= stop.target_accuracy:
        return "target_accuracy"
    if stop.target is not None and reaches(stop.target, fact):
        return "target"
    if stop.patience is not None and state.progress.since >= stop.patience:
        return "patience"
    return ""


def reaches(target: str, fact: Evaluated) -> bool:
    """Has a model reached a target for one of its measures, or for its score, which goes by `accuracy` too?"""
    parsed = read_target(target)
    if parsed is None:
        return False
    name, at_least, limit = parsed
    value = fact.correct / fact.total if name in SCORE_NAMES and fact.total else fact.measures.get(name.removeprefix("own."))
    return value is not None and (value >= limit if at_least else value <= limit)


def start_ending(state: RunState, reason: str) -> Reaction:
    """Drop what is running, and try the last model on everyone."""
    if state.phase is Phase.ENDING:
        return Reaction(state)
    outcomes: tuple[Outcome, ...] = ()
    commands: tuple[Command, ...] = ()
    state, drop_event = drop_tasks(state, 0)
    if drop_event is not None:
        outcomes, commands = (drop_event,), (Forget(drop_event.tasks, drop_event.clients),)
    state, account = request_account(state._replace(phase=Phase.ENDING, reason=reason), state.ended)
    return Reaction(state, outcomes, (*commands, *account, evaluate_command(state)))


def finish_run(state: RunState) -> Reaction:
    """The last event."""
    ended = RunEnded(state.book.now, state.reason)
    return Reaction(state._replace(phase=Phase.DONE), (ended,), (Finish(state.reason),))
