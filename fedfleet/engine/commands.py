"""Commands that a state still waits for, and carrying commands out: the one place where a command meets what a runtime does."""

from __future__ import annotations

from typing import Protocol

from fedfleet.core.commands import Account, Command, Evaluate, FindCandidates, Finish, Forget, Gather, Probe, Send, WakeAt
from fedfleet.core.cost import settings_at
from fedfleet.core.parts import Plan
from fedfleet.core.passes import NO_SETTINGS
from fedfleet.core.records import FOLDED, Context
from fedfleet.engine.state import Ending, Phase, RunState, endings, next_wake


def pending_commands(plan: Plan, state: RunState) -> tuple[Command, ...]:
    """The commands that are still unanswered, for a runtime that takes a run up at this state.

    Tasks that run are not among them: what became of them only the runtime can know.
    """
    del plan  # a state says it all; the plan is here so that a future part may be asked
    result: list[Command] = []
    if state.phase is Phase.DONE:
        return ()
    wake = next_wake(state)
    if wake is not None:
        result.append(WakeAt(wake))
    if state.probe is not None:
        result.append(state.probe)
    elif state.book.asking:
        result.append(FindCandidates(state.book.wanted - state.book.selected, state.at_least))
    result += map(account_command, state.unpaid)
    if state.phase is Phase.GATHERING:
        result.append(gather_command(state))
    elif state.phase in (Phase.EVALUATING, Phase.EVALUATING_MIDROUND, Phase.CONSULT_AFTER_EVALUATION, Phase.ENDING):
        result.append(evaluate_command(state))
    return tuple(result)


def gather_command(state: RunState) -> Gather:
    """Fold what has arrived, in the order of tasks."""
    arrived, version = [e for e in endings(state.gathering) if e.fate == FOLDED], state.book.version
    contexts: list[Context] = []
    for e in arrived:
        assignments, slot, staleness = e.wave.assignments, e.task - e.wave.first, version - e.wave.version
        settings = settings_at(assignments, slot) if assignments.settings else NO_SETTINGS
        start = e.wave.server.params if staleness else None
        contexts.append(Context(staleness, e.seconds, int(assignments.clients[slot]), settings, e.task, start))
    return Gather(tuple(e.task for e in arrived), tuple(e.wave for e in arrived), tuple(contexts), state.server, version + 1)


def account_command(last: Ending) -> Account:
    """Find out what these ended tasks cost."""
    tasks = endings(last)
    return Account(tuple(e.task for e in tasks), tuple(e.wave for e in tasks), tuple(e.seconds for e in tasks))


def request_account(state: RunState, last: Ending | None) -> tuple[RunState, tuple[Account, ...]]:
    """The state in which it is asked what these ended tasks cost; nothing if none ended."""
    if last is None:
        return state, ()
    return state._replace(unpaid=(*state.unpaid, last)), (account_command(last),)


def evaluate_command(state: RunState) -> Evaluate:
    """Try the newest model; at the end of the run on every client too. One that was tried already is not tried again."""
    last, ending = state.progress, state.phase is Phase.ENDING
    known = last.tried if not ending and last.evaluated == state.book.version else None
    return Evaluate(state.book.version, state.server, ending, known)


class Actor(Protocol):
    """What a runtime can do. Answers come back as facts, in whatever way the runtime has of reporting them."""

    def find(self, command: FindCandidates) -> None: ...
    def probe(self, command: Probe) -> None: ...
    def send(self, command: Send) -> None: ...
    def wake(self, command: WakeAt) -> None: ...
    def gather(self, command: Gather) -> None: ...
    def forget(self, command: Forget) -> None: ...
    def account(self, command: Account) -> None: ...
    def evaluate(self, command: Evaluate) -> None: ...
    def finish(self, command: Finish) -> None: ...


_METHODS: dict[type[Command], str] = {
    FindCandidates: "find", Probe: "probe", Send: "send", WakeAt: "wake", Gather: "gather", Forget: "forget",
    Account: "account", Evaluate: "evaluate", Finish: "finish",
}  # fmt: skip


def carry_out(actor: Actor, command: Command) -> None:
    """Do what the coordinator asks."""
    assert type(command) in _METHODS, f"{command!r} is not a command"
    getattr(actor, _METHODS[type(command)])(command)
