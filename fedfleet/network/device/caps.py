"""Caps: what a server may ask of this device. What goes beyond is declined, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedfleet.core.parts import Pass, Promise

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that a server may ask: bytes of a model or report, training steps of a task, tasks and seconds of work in all.

    `noise` is the least that this device adds to its updates, as a multiple of the length to which they are clipped; 0: none.
    """

    bytes: int = 2 * GIB
    steps: int = 1_000_000
    tasks: int | None = None
    seconds: float | None = None
    noise: float = 0.0


def too_large(caps: Caps, nbytes: int, what: str) -> str | None:
    """Why so many bytes are too many; None if they are not.

    >>> too_large(Caps(bytes=10), 11, "the model")
    'the model has 11 bytes, and this device takes 10 at most'
    """
    return f"{what} has {nbytes} bytes, and this device takes {caps.bytes} at most" if nbytes > caps.bytes else None


def too_long(caps: Caps, steps: int) -> str | None:
    """Why a task of so many training steps is too long; None if it is not."""
    return f"the task has {steps} steps, and this device does {caps.steps} at most" if steps > caps.steps else None


def too_little_noise(caps: Caps, promise: Promise | None) -> str | None:
    """Why a run protects this device too little: only noise that the device adds itself counts; None if it is enough.

    >>> too_little_noise(Caps(noise=1.0), None)
    'this device adds noise of 1 times the clipping norm at least to what it sends, and this run asks for none'
    """
    if caps.noise <= 0:
        return None
    added = promise.noise if promise is not None and promise.mechanism == "local" else 0.0
    if added >= caps.noise:
        return None
    asked = f"for {added:g}" if added else "for none"
    return f"this device adds noise of {caps.noise:g} times the clipping norm at least to what it sends, and this run asks {asked}"


def budget_reason(caps: Caps, tasks: int, seconds: float) -> str | None:
    """Why this device does no more tasks; None if it does."""
    if caps.tasks is not None and tasks >= caps.tasks:
        return f"this device does {caps.tasks} tasks at most, and has done them"
    if caps.seconds is not None and seconds >= caps.seconds:
        return f"this device works for {caps.seconds:g} s at most, and has done so"
    return None


def steps_of(half: Pass, samples: int, steps: int) -> int:
    """How many steps a task trains; `steps` are those that it asks for itself, for every stage (0: what the pass says)."""
    from fedfleet.core.passes import LocalPass

    if not isinstance(half, LocalPass):
        return steps
    each = (steps or s.batches.steps or s.batches.epochs * -(-samples // s.batches.size) for s in half.work())
    return sum(each)
