"""The coordinator: `begin(plan)` and `step(plan, state, fact)`, pure functions and the only decision makers.

A round: the policy asks, candidates are seen, the selector picks, tasks go out; as they end the policy is consulted;
it commits (reports are gathered, folded, applied) or abandons the round; the model is evaluated; a stopping rule may
end the run; the next round opens. Within one instant tasks end first, then candidates are seen, then timers fire.
"""

from __future__ import annotations

from typing import assert_never

import numpy as np
from immutables import Map

from fedfleet.core.aggregation import finish
from fedfleet.core.commands import WakeAt
from fedfleet.core.errors import RunFailed, blaming
from fedfleet.core.events import (
    CandidatesSeen,
    Evaluated,
    Fact,
    Made,
    ModelCommitted,
    PaceSet,
    Probed,
    ReportRejected,
    ReportsGathered,
    ReportUnwanted,
    RoundFailed,
    RunBegan,
    TaskArrived,
    TaskLost,
    TasksSpent,
    TaskStruck,
    TimerFired,
)
from fedfleet.core.model_names import model_name
from fedfleet.core.parts import Algorithm, Plan
from fedfleet.core.records import Book, ServerState
from fedfleet.core.trees import content_hash
from fedfleet.engine import stop_rules
from fedfleet.engine.book import FACTS_PER_INSTANT, INSTANT_SECONDS, learnt, room_for, task_ended, with_book
from fedfleet.engine.candidates import candidates_seen, probed
from fedfleet.engine.decisions import consult, open_next
from fedfleet.engine.open_commands import evaluate_command
from fedfleet.engine.state import Phase, Reaction, RunState, alarm, endings, overtaken


def begin(plan: Plan) -> Reaction:
    """The state before the first fact; the untrained model is evaluated first, so that every curve has a start."""
    with blaming(f"algorithm {plan.algorithm.name!r}, making its first state,"):
        server = plan.algorithm.init(plan.params)
    with blaming(f"selector {plan.choose.name!r}, making its first state for {plan.clients} clients,"):
        selector = plan.choose.initial(plan.clients)
    book = Book(kept=plan.pace.initial)
    first = stop_rules.next_look(plan)
    state = RunState(server, selector, book, Map(), phase=Phase.EVALUATING, room=room_for(0), look=first)
    began = RunBegan(0.0, plan.seed, plan.clients, plan.spec_digest, content_hash(server.params))
    shown = (PaceSet(0.0, name, plan.pace.initial[at]) for name, at in plan.pace.shows)
    return Reaction(state, (began, *shown), (evaluate_command(state), *_woken(state)))


def step(plan: Plan, state: RunState, fact: Fact) -> Reaction:
    """The next state, the outcomes and the commands that follow from one fact."""
    if fact.time < state.book.now:
        raise RunFailed(
            f"time fell from {state.book.now} to {fact.time} at {type(fact).__name__}: the runtime is broken"
        )
    if state.phase is Phase.DONE:
        raise RunFailed(f"{type(fact).__name__} after the run had ended: the runtime is broken")
    if isinstance(fact, (TaskArrived, TaskLost)):
        return _task_ended(plan, state, fact)
    if isinstance(fact, (TaskStruck, ReportUnwanted)):
        return _unseen(state, fact)
    state = _guard_zeno(plan, state, fact)
    match fact:
        case CandidatesSeen():
            return candidates_seen(plan, state, fact)
        case Probed():
            return probed(plan, state, fact)
        case TasksSpent():
            return Reaction(_charged(plan, state, fact))
        case TimerFired():
            return _timer_fired(plan, state, fact)
        case ReportsGathered():
            return _reports_gathered(plan, state, fact)
        case Evaluated():
            return _evaluated(plan, state, fact)
        case _:
            assert_never(fact)


def _task_ended(plan: Plan, state: RunState, fact: TaskArrived | TaskLost) -> Reaction:
    """The hot path: one consultation for every task that ends."""
    wave = state.running.get(fact.task)
    if wave is None:
        raise RunFailed(f"task {fact.task} of client {fact.client} ended, but it is not running: reported twice?")
    state, now = task_ended(state, fact, wave), fact.time
    # A wake-up is due at this very instant: by then everyone who arrives now is there, and the policy sees them together.
    if now == state.wake and not plan.pace.prompt:
        return Reaction(state)
    return consult(plan, state)


def _unseen(state: RunState, fact: TaskStruck | ReportUnwanted) -> Reaction:
    """What neither a policy nor a selector can know of, or has any use for: it is in the journal, and that is all."""
    if isinstance(fact, TaskStruck) != (fact.task in state.running):
        odd = "is not running" if isinstance(fact, TaskStruck) else "is awaited"
        raise RunFailed(f"{type(fact).__name__} of task {fact.task}, which {odd}: the runtime is broken")
    if fact.time - state.book.now >= INSTANT_SECONDS:  # time passes, and so what happens next is in another instant
        state = state._replace(room=room_for(state.book.running))
    return Reaction(with_book(state, now=fact.time, answered=False))


def _charged(plan: Plan, state: RunState, fact: TasksSpent) -> RunState:
    """The selector hears what tasks cost."""
    if not state.unpaid or [e.task for e in endings(state.unpaid[0])] != fact.tasks.tolist():
        raise RunFailed("it is told what tasks cost of which nobody asked: the runtime is broken")
    state = with_book(state._replace(unpaid=state.unpaid[1:]), now=fact.time)
    if plan.choose.charge is None:
        return state
    with blaming(f"selector {plan.choose.name!r}, hearing what {len(fact.tasks)} tasks cost,"):
        return state._replace(selector=plan.choose.charge(state.selector, fact))


def _timer_fired(plan: Plan, state: RunState, fact: TimerFired) -> Reaction:
    if state.look is not None and fact.time >= state.look and state.phase is Phase.OPEN:
        return _looked(plan, state, fact)
    state = with_book(state._replace(wake=None), now=fact.time, answered=False)
    look = _woken(state)
    if (
        state.phase is not Phase.OPEN
    ):  # what is awaited will look at the clock when it comes, and for a look that is due then
        later = state.look is not None and state.look > fact.time
        return Reaction(overtaken(state), (), look if later else ())
    over = fact.time >= plan.stop.virtual_seconds
    after = stop_rules.start(state, "virtual_seconds") if over else consult(plan, state)
    return Reaction(after.state, after.outcomes, look + after.commands)


def _looked(plan: Plan, state: RunState, fact: TimerFired) -> Reaction:
    """Look at the model in the middle of a round; the policy is not asked, so that looking changes nothing."""
    after = stop_rules.next_look(plan, fact.time)
    state = with_book(state._replace(phase=Phase.LOOKING, look=after), now=fact.time)
    return Reaction(state, (), (evaluate_command(state), *_woken(state)))


def _woken(state: RunState) -> tuple[WakeAt, ...]:
    wake = alarm(state)
    return () if wake is None else (WakeAt(wake),)


def _reports_gathered(plan: Plan, state: RunState, fact: ReportsGathered) -> Reaction:
    if state.phase is not Phase.GATHERING:
        raise RunFailed("reports were gathered that nobody asked for: the runtime is broken")
    state = with_book(state._replace(phase=Phase.OPEN), now=fact.time)
    rejected = tuple(ReportRejected(fact.time, r.task, r.client, r.reason) for r in fact.rejected)
    book, algorithm = state.book, plan.algorithm
    with blaming(f"algorithm {algorithm.name!r}, making model {book.version + 1} from {len(fact.tasks)} reports,"):
        made = fact.made or make(algorithm, state.server, fact)
    if made is None:
        failed = RoundFailed(fact.time, book.round, "no report could be folded")
        after = open_next(plan, learnt(plan, state, fact))
        return Reaction(after.state, (*rejected, failed, *after.outcomes), after.commands)
    loss = fact.stats.get("loss")
    committed = ModelCommitted(
        fact.time, book.round, book.version + 1, made.name, len(fact.tasks),
        float(np.mean(loss)) if loss is not None and len(loss) else float("nan"),
    )  # fmt: skip
    state = learnt(plan, with_book(state._replace(server=made.server), version=book.version + 1), fact)
    after = open_next(plan, state)
    return Reaction(after.state, (*rejected, committed, *after.outcomes), after.commands)


def make(algorithm: Algorithm, server: ServerState, fact: ReportsGathered) -> Made | None:
    """What the server learns from gathered reports; None if nothing could be folded."""
    aggregate = finish(algorithm.fold, fact.aggregate) if fact.aggregate is not None else None
    if aggregate is None:
        return None
    after = algorithm.apply(server, aggregate)
    return Made(after, model_name(after.params))


def _evaluated(plan: Plan, state: RunState, fact: Evaluated) -> Reaction:
    state = with_book(state, now=fact.time)
    if state.phase is Phase.ENDING:
        return stop_rules.finish(state)
    if state.phase not in (Phase.EVALUATING, Phase.LOOKING, Phase.OVERTAKEN):
        raise RunFailed(f"model {fact.version} was evaluated without being asked for: the runtime is broken")
    looked, unheard = state.phase is not Phase.EVALUATING, state.phase is Phase.OVERTAKEN
    state = state._replace(phase=Phase.OPEN, progress=stop_rules.progressed(plan, state.progress, fact))
    reason = stop_rules.goal_reached(plan, state, fact) or ("" if looked else stop_rules.limit_reached(plan, state))
    if reason:
        return stop_rules.start(state, reason)
    return Reaction(state) if looked and not unheard else consult(plan, state)


def _guard_zeno(plan: Plan, state: RunState, fact: Fact) -> RunState:
    if fact.time - state.book.now >= INSTANT_SECONDS:
        return state._replace(room=room_for(state.book.running))
    if state.room <= 0:
        raise RunFailed(
            f"more than {FACTS_PER_INSTANT} facts at time {fact.time} without time passing, beside those of tasks that "
            f"ended: policy {plan.pace.name!r} or selector {plan.choose.name!r} keeps asking"
        )
    return state._replace(room=state.room - 1)
