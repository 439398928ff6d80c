"""Commands that a state still waits for, and carrying commands out: the one place where a command meets what a runtime does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import compress
from typing import Protocol

from fedfleet.core.commands import Account, Command, Evaluate, FindCandidates, Finish, Forget, Gather, Probe, Send, WakeAt
from fedfleet.core.cost import settings_at
from fedfleet.core.lazy_sequence import LazySequence
from fedfleet.core.parts import Plan
from fedfleet.core.passes import NO_SETTINGS
from fedfleet.core.records import FOLDED, Context, Wave, by_wave
from fedfleet.engine.state import EndedChain, EndedColumns, Phase, RunState, change, ended_columns, next_wake


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
    result += (account_command(ended_columns(last)) for last in state.unpaid)
    if state.phase is Phase.GATHERING:
        result.append(gather_command(state))
    elif state.phase in (Phase.EVALUATING, Phase.EVALUATING_MIDROUND, Phase.CONSULT_AFTER_EVALUATION, Phase.ENDING):
        result.append(evaluate_command(state))
    return tuple(result)


def gather_command(state: RunState, columns: EndedColumns | None = None) -> Gather:
    """Fold what has arrived, in the order of tasks; `columns` are the tasks that are gathered, from a caller that has them."""
    columns, version = ended_columns(state.gathering) if columns is None else columns, state.book.version
    arrived = [fate == FOLDED for fate in columns.fates]
    tasks, waves = tuple(compress(columns.tasks, arrived)), tuple(compress(columns.waves, arrived))
    seconds = tuple(compress(columns.seconds, arrived))
    contexts = LazySequence(len(tasks), partial(_contexts, tasks, waves, seconds, version))
    return Gather(tasks, waves, contexts, state.server, version + 1)


def _contexts(tasks: Sequence[int], waves: Sequence[Wave], seconds: Sequence[float], version: int) -> list[Context]:
    result: list[Context] = []
    for wave, first, stop, slots in by_wave(tasks, waves):
        assignments, staleness = wave.assignments, version - wave.version
        start = wave.server.params if staleness else None
        clients = assignments.clients[slots].tolist()
        for task, client, took in zip(tasks[first:stop], clients, seconds[first:stop], strict=True):
            settings = settings_at(assignments, task - wave.first) if assignments.settings else NO_SETTINGS
            result.append(Context(staleness, took, client, settings, task, start))
    return result


def account_command(columns: EndedColumns) -> Account:
    """Find out what these ended tasks cost."""
    return Account(tuple(columns.tasks), tuple(columns.waves), tuple(columns.seconds))


def request_account(
    state: RunState, last: EndedChain | None, columns: EndedColumns | None = None
) -> tuple[RunState, tuple[Account, ...]]:
    """The state in which it is asked what these ended tasks cost, of which `columns` may be known; nothing if none ended."""
    if last is None:
        return state, ()
    command = account_command(ended_columns(last) if columns is None else columns)
    return change(state, unpaid=(*state.unpaid, last)), (command,)


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
