"""What arrives is decoded before it is folded: one report at a time, or a whole stack of them where they were made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedfleet.core.exact import Parts
from fedfleet.core.records import Context, Report, ServerState

# (server, updates [clients, ..] of equal names and shapes, one context each) -> updates, and the parts that all of them have.
StackDecoder = Callable[[ServerState, Mapping[str, Any], Sequence[Context]], tuple[dict[str, Any], Parts | None]]


@dataclass(frozen=True, slots=True)
class Decoder:
    """An `accept` that executors can also apply to a whole stack of updates on an accelerator, so that no report leaves it.

    `one` is `accept` itself. `stack` does the same, bit for bit, to torch tensors with a leading client axis; what it refuses it
    refuses for all of them, who sent the same names and shapes.
    """

    one: Callable[[ServerState, Report, Context], Report]
    stack: StackDecoder

    def __call__(self, server: ServerState, report: Report, context: Context) -> Report:
        return self.one(server, report, context)
