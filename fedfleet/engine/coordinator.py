"""The coordinator: `begin(plan)` and `step(plan, state, fact)`, pure functions and the only decision makers.

One round, as a caller of `step` sees it: each line begins with a fact, and `->` shows the commands that are returned.

    the policy asks for 20 clients      -> FindCandidates
    CandidatesSeen(roster)              the selector picks                          -> Send, WakeAt
    TaskArrived, TaskLost, TimerFired   the policy decides; it closes the round     -> Gather, Forget, Account
    TasksSpent                          what the ended tasks cost
    ReportsGathered(aggregate)          the algorithm makes the next model          -> Evaluate
    Evaluated                           a stopping rule ends the run, or the next round opens

A policy may also abandon a round (`RoundFailed`). Within one instant tasks end first, then candidates are seen, then timers fire.
`decisions.consult` asks the policy, `candidates.handle_candidates` the selector, `_handle_gathered_reports` makes the model.
"""

from __future__ import annotations

from typing import assert_never

import numpy as np
from immutables import Map

from fedfleet.core import events
from fedfleet.core.aggregation import finish
from fedfleet.core.commands import WakeAt
from fedfleet.core.errors import FedFleetError, RunFailed, error_context, part_error
from fedfleet.core.events import Fact, TaskArrivals, TaskArrived, TaskLost
from fedfleet.core.parts import Algorithm, Plan, SteadyDecide
from fedfleet.core.records import Book, ServerState
from fedfleet.core.trees import content_hash, model_name
from fedfleet.engine import stop_rules
from fedfleet.engine.book import (
    FACTS_PER_INSTANT,
    INSTANT_SECONDS,
    end_arrived,
    end_task,
    facts_allowed,
    update_selector,
    with_book,
)
from fedfleet.engine.candidates import handle_candidates, handle_probe_answer
from fedfleet.engine.commands import evaluate_command
from fedfleet.engine.decisions import consult, open_next_round, policy_context
from fedfleet.engine.state import Phase, Reaction, RunState, change, ended_tasks, mark_overtaken, next_wake


def begin(plan: Plan) -> Reaction:
    """The state before the first fact; the untrained model is evaluated first, so that every curve has a start."""
    with error_context(f"algorithm {plan.algorithm.name!r}, making its first state,"):
        server = plan.algorithm.init(plan.params)
    with error_context(f"selector {plan.choose.name!r}, making its first state for {plan.clients} clients,"):
        selector = plan.choose.initial(plan.clients)
    book = Book(kept=plan.pace.initial)
    next_evaluation = stop_rules.next_evaluation_time(plan)
    state = RunState(server, selector, book, Map(), phase=Phase.EVALUATING, room=facts_allowed(0), look=next_evaluation)
    run_began = events.RunBegan(0.0, plan.seed, plan.clients, plan.spec_digest, content_hash(server.params))
    pace_events = (events.PaceSet(0.0, name, plan.pace.initial[at]) for name, at in plan.pace.shows)
    return Reaction(state, (run_began, *pace_events), (evaluate_command(state), *_wake_commands(state)))


def step(plan: Plan, state: RunState, fact: Fact) -> Reaction:
    """The next state, the outcomes and the commands that follow from one fact."""
    if fact.time < state.book.now:
        raise RunFailed(
            f"internal error: time fell from {state.book.now} to {fact.time} at {type(fact).__name__}; please report this"
        )
    if state.phase is Phase.DONE:
        raise RunFailed(f"internal error: a fact {type(fact).__name__} came after the end of the run; please report this")
    if isinstance(fact, (TaskArrived, TaskLost)):
        return _handle_task_end(plan, state, fact)
    if isinstance(fact, (events.TaskStruck, events.ReportUnwanted)):
        return _handle_unseen_fact(state, fact)
    state = _guard_zeno(plan, state, fact)
    match fact:
        case events.CandidatesSeen():
            return handle_candidates(plan, state, fact)
        case events.Probed():
            return handle_probe_answer(plan, state, fact)
        case events.TasksSpent():
            return Reaction(_charge_selector(plan, state, fact))
        case events.TimerFired():
            return _handle_timer(plan, state, fact)
        case events.ReportsGathered():
            return _handle_gathered_reports(plan, state, fact)
        case events.Evaluated():
            return _handle_evaluation(plan, state, fact)
        case _:
            assert_never(fact)


def _handle_task_end(plan: Plan, state: RunState, fact: TaskArrived | TaskLost) -> Reaction:
    """The hot path: one consultation for every task that ends."""
    wave = state.running.get(fact.task)
    if wave is None:
        raise _not_running(fact)
    state, now = end_task(state, fact, wave), fact.time
    # A wake-up is due at this same instant: by then everyone who arrives now is there, and the policy sees them together.
    if now == state.wake and not plan.pace.prompt:
        return Reaction(state)
    return consult(plan, state)


def quiet_arrivals(plan: Plan, state: RunState) -> int:
    """How many of the next reports, if they come before the policy is to be woken, it would let pass without a decision."""
    decide = plan.pace.decide
    if state.phase is not Phase.OPEN or not isinstance(decide, SteadyDecide):
        return 0
    try:
        arrivals, wake_at = decide.steady(state.book)
    except FedFleetError:
        raise
    except Exception as error:  # spelt out, as in `consult`
        raise part_error(policy_context(plan, state), error) from error
    horizon = plan.stop.virtual_seconds
    return min(arrivals, state.book.running - 1) if state.wake == (horizon if wake_at is None else min(wake_at, horizon)) else 0


def handle_arrivals(state: RunState, arrivals: TaskArrivals) -> RunState:
    """The state after no more arrivals than are quiet: the same as after a `step` for each."""
    try:
        waves = tuple(map(state.running.__getitem__, arrivals.tasks))
    except KeyError as error:
        raise _not_running(arrivals[arrivals.tasks.index(error.args[0])]) from None
    if arrivals.times[0] < state.book.now:
        raise RunFailed(f"internal error: time fell from {state.book.now} to {arrivals.times[0]} at arrivals; please report this")
    return end_arrived(state, arrivals, waves)


def _not_running(fact: TaskArrived | TaskLost) -> RunFailed:
    return RunFailed(
        f"task {fact.task} of client {fact.client} ended, but it is not running; "
        "its end was reported twice, or the task was never sent"
    )


def _handle_unseen_fact(state: RunState, fact: events.TaskStruck | events.ReportUnwanted) -> Reaction:
    """What neither a policy nor a selector can know of, or has any use for: it is in the journal, and that is all."""
    if isinstance(fact, events.TaskStruck) != (fact.task in state.running):
        odd = "is not running" if isinstance(fact, events.TaskStruck) else "is still running"
        raise RunFailed(f"internal error: a fact {type(fact).__name__} came for task {fact.task}, which {odd}; please report this")
    if fact.time - state.book.now >= INSTANT_SECONDS:  # time passes, and so what happens next is in another instant
        state = change(state, room=facts_allowed(state.book.running))
    return Reaction(with_book(state, now=fact.time, answered=False))


def _charge_selector(plan: Plan, state: RunState, fact: events.TasksSpent) -> RunState:
    """The selector hears what tasks cost."""
    if not state.unpaid or ended_tasks(state.unpaid[0]) != fact.tasks.tolist():
        raise RunFailed("internal error: unexpected costs of tasks were reported; please report this")
    state = with_book(change(state, unpaid=state.unpaid[1:]), now=fact.time)
    if plan.choose.charge is None:
        return state
    with error_context(f"selector {plan.choose.name!r}, learning what {len(fact.tasks)} tasks cost,"):
        return change(state, selector=plan.choose.charge(state.selector, fact))


def _handle_timer(plan: Plan, state: RunState, fact: events.TimerFired) -> Reaction:
    if state.look is not None and fact.time >= state.look and state.phase is Phase.OPEN:
        # Look at the model in the middle of a round; the policy is not asked, so that looking changes nothing.
        next_evaluation = stop_rules.next_evaluation_time(plan, fact.time)
        state = with_book(change(state, phase=Phase.EVALUATING_MIDROUND, look=next_evaluation), now=fact.time)
        return Reaction(state, (), (evaluate_command(state), *_wake_commands(state)))
    state = with_book(change(state, wake=None), now=fact.time, answered=False)
    wake_commands = _wake_commands(state)
    if state.phase is not Phase.OPEN:  # what is awaited will look at the clock when it comes, and for a look that is due then
        later = state.look is not None and state.look > fact.time
        return Reaction(mark_overtaken(state), (), wake_commands if later else ())
    over = fact.time >= plan.stop.virtual_seconds
    after = stop_rules.start_ending(state, "virtual_seconds") if over else consult(plan, state)
    return Reaction(after.state, after.outcomes, wake_commands + after.commands)


def _wake_commands(state: RunState) -> tuple[WakeAt, ...]:
    wake = next_wake(state)
    return () if wake is None else (WakeAt(wake),)


def _handle_gathered_reports(plan: Plan, state: RunState, fact: events.ReportsGathered) -> Reaction:
    if state.phase is not Phase.GATHERING:
        raise RunFailed("internal error: reports were gathered unexpectedly; please report this")
    state = with_book(change(state, phase=Phase.OPEN), now=fact.time)
    rejected = tuple(events.ReportRejected(fact.time, r.task, r.client, r.reason) for r in fact.rejected)
    book, algorithm = state.book, plan.algorithm
    with error_context(f"algorithm {algorithm.name!r}, making model {book.version + 1} from {len(fact.tasks)} reports,"):
        new_model = fact.made or make_model(algorithm, state.server, fact)
    if new_model is None:
        failed = events.RoundFailed(fact.time, book.round, "no report could be folded")
        after = open_next_round(plan, update_selector(plan, state, fact))
        return Reaction(after.state, (*rejected, failed, *after.outcomes), after.commands)
    loss = fact.stats.get("loss")
    committed = events.ModelCommitted(
        fact.time, book.round, book.version + 1, new_model.name, len(fact.tasks),
        float(np.mean(loss)) if loss is not None and len(loss) else float("nan"),
    )  # fmt: skip
    state = update_selector(plan, with_book(change(state, server=new_model.server), version=book.version + 1), fact)
    after = open_next_round(plan, state)
    return Reaction(after.state, (*rejected, committed, *after.outcomes), after.commands)


def make_model(algorithm: Algorithm, server: ServerState, fact: events.ReportsGathered) -> events.NewModel | None:
    """What the server learns from gathered reports; None if nothing could be folded."""
    aggregate = finish(algorithm.fold, fact.aggregate) if fact.aggregate is not None else None
    if aggregate is None:
        return None
    after = algorithm.apply(server, aggregate)
    return events.NewModel(after, model_name(after.params))


def _handle_evaluation(plan: Plan, state: RunState, fact: events.Evaluated) -> Reaction:
    state = with_book(state, now=fact.time)
    if state.phase is Phase.ENDING:
        return stop_rules.finish_run(state)
    if state.phase not in (Phase.EVALUATING, Phase.EVALUATING_MIDROUND, Phase.CONSULT_AFTER_EVALUATION):
        raise RunFailed(f"internal error: model {fact.version} was evaluated unexpectedly; please report this")
    midround, consult_after = state.phase is not Phase.EVALUATING, state.phase is Phase.CONSULT_AFTER_EVALUATION
    state = change(state, phase=Phase.OPEN, progress=stop_rules.update_progress(plan, state.progress, fact))
    reason = stop_rules.goal_reason(plan, state, fact) or ("" if midround else stop_rules.limit_reason(plan, state))
    if reason:
        return stop_rules.start_ending(state, reason)
    return Reaction(state) if midround and not consult_after else consult(plan, state)


def _guard_zeno(plan: Plan, state: RunState, fact: Fact) -> RunState:
    if fact.time - state.book.now >= INSTANT_SECONDS:
        return change(state, room=facts_allowed(state.book.running))
    if state.room <= 0:
        raise RunFailed(
            f"the run is stuck at time {fact.time}: more than {FACTS_PER_INSTANT} facts came without time passing (facts of ended "
            f"tasks are not counted), because policy {plan.pace.name!r} or selector {plan.choose.name!r} keeps asking"
        )
    return change(state, room=state.room - 1)
