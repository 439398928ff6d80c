"""Carrying commands out: the one place where a command is matched to what a runtime does."""

from __future__ import annotations

from typing import Protocol, assert_never

from fedfleet.core.commands import (
    Account,
    Command,
    Evaluate,
    FindCandidates,
    Finish,
    Forget,
    Gather,
    Probe,
    Send,
    WakeAt,
)


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


def carry_out(actor: Actor, command: Command) -> None:
    """Do what the coordinator asks."""
    match command:
        case FindCandidates():
            actor.find(command)
        case Probe():
            actor.probe(command)
        case Send():
            actor.send(command)
        case WakeAt():
            actor.wake(command)
        case Gather():
            actor.gather(command)
        case Forget():
            actor.forget(command)
        case Account():
            actor.account(command)
        case Evaluate():
            actor.evaluate(command)
        case Finish():
            actor.finish(command)
        case _:
            assert_never(command)
