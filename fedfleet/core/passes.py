"""The client's half as data: what one client trains, with what, what it keeps and what it sends.

A pass is a value. Clients whose passes are equal train together in one stack, so whatever a builder puts into a pass must be the
same object for equal settings: build functions once per algorithm, not once per client. A client's own learning rate is not
compared: a hundred different rates still stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedfleet.core.codec import Codec
from fedfleet.core.edges import NestedPass
from fedfleet.core.old_names import old_fields, old_symbols
from fedfleet.core.records import Settings, Slots
from fedfleet.core.trees import Tree

if TYPE_CHECKING:
    from fedfleet.core.parts import Job

Names = Callable[[str], bool]
Tensors = Mapping[str, Any]  # of one client, or of a stack of clients with a leading axis: terms and optimisers treat both alike

# The slots of a client's memory that the client's half itself uses; hooks and methods name slots of their own.
KEPT, SECOND, FEEDBACK = "kept", "second", "feedback"
# What a client reports beside its update: mean loss, samples really trained on, steps, mean squared loss, how far it went.
STATS = ("loss", "samples", "steps", "squared_loss", "update_norm")


@dataclass(frozen=True, slots=True)
class Carry:
    """What a pass carries alongside the model: the client's memory by slot, and what else was offered."""

    memory: Mapping[str, Tensors]
    given: Tensors


# Gradients to add to the loss gradient: (params, start, carried) -> {name: tensor}; elementwise.
GradientTerm = Callable[[Tensors, Tensors, Carry], Tensors]


@dataclass(frozen=True, slots=True)
class ProximalTerm:
    """The gradient term mu (w - w_start), as a value that kernels recognise: it only shrinks the distance walked."""

    mu: float

    def __call__(self, params: Tensors, start: Tensors, carried: Carry) -> Tensors:
        """The term, literally."""
        del carried
        return {n: self.mu * (p - start[n]) for n, p in params.items()}


@old_fields(of="compute")
@dataclass(frozen=True, slots=True)
class ConstantTerm:
    """A gradient term that stays the same all through a pass, such as a control variate: kernels compute it once."""

    compute: Callable[[Tensors, Carry], Tensors]  # (start, carried) -> {name: tensor}

    def __call__(self, params: Tensors, start: Tensors, carried: Carry) -> Tensors:
        """The term, literally."""
        return {n: v for n, v in self.compute(start, carried).items() if n in params}


@dataclass(frozen=True, slots=True)
class LinearStep:
    """An optimiser that is linear in its gradients: v <- momentum v + g + weight_decay w; w <- w - rate v."""

    momentum: float = 0.0
    weight_decay: float = 0.0


@dataclass(frozen=True, slots=True)
class Optimiser:
    """A functional optimiser on dictionaries of tensors.

    `init(params)` gives its state, `update(params, grads, state, rates)` new params and state; `rates[name]` is a number, or a
    tensor that broadcasts against the parameter. `linear` says that it is just that, so that a kernel may fuse it.
    """

    init: Callable[[Tensors], Any]
    update: Callable[[Tensors, Tensors, Any, Tensors], tuple[dict[str, Any], Any]]
    linear: LinearStep | None = None


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """How a client walks through its shard: `epochs` passes, or exactly `steps` steps when that is not None."""

    size: int = 16
    epochs: int = 1
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """A named part of a client's memory, and what a client has there that never took part: `fresh(offered model)`."""

    name: str
    fresh: Callable[[Tree], Tree]


@dataclass(frozen=True, slots=True)
class SecondModel:
    """A second model of the client's own, kept at home (slot "second").

    It is trained beside the first, by an objective that sees both; or, with a pass of its `own`, after it and apart from it: then
    the first trains as if there were no second, and terms of the own pass take the model that was offered for their start.
    """

    fresh: Callable[[Tree], Tree]
    own: LocalPass | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's samples as an objective sees them: inputs, labels, and the mean over each client's real samples.

    `mean(values)` takes one value per sample and gives one per client; padding never counts. `apart(function, outputs)` calls
    function(outputs, labels) for each client's real samples alone, for functions that give one value for all samples.
    """

    x: Any
    y: Any
    mean: Callable[[Any], Any]
    apart: Callable[[Callable[[Any, Any], Any], Any], Any]


# (forward, params, second, carried, batch) -> one loss per client. `forward(params, x)` gives logits; `second` holds the parameters
# of the second model, if the pass has one, and is trained with the first.
Objective = Callable[[Callable[[Tensors, Any], Any], Tensors, Tensors, Carry, Batch], Any]


@dataclass(frozen=True, slots=True)
class Passed:
    """A stack of clients after their passes, as tensors with a leading client axis; inline is a stack of one.

    `update` is what goes up (every leaf of one size for all clients), `memory` the slots that are replaced, `start` what each began
    with. `weight`, `steps`, `rates`, `keys` and `tasks` are columns, one entry per client; `seed` and the last two address
    randomness. `bytes_up`, a column too, is for hooks whose bytes depend on values (then the algorithm is `priced_by_value`).
    `noise_key` addresses noise that clients add themselves; None: the seed does.
    """

    update: Tensors
    start: Tensors
    memory: Mapping[str, Tensors]
    given: Tensors
    weight: np.ndarray[Any, Any]
    steps: np.ndarray[Any, Any]
    rates: np.ndarray[Any, Any]
    keys: np.ndarray[Any, Any]
    tasks: np.ndarray[Any, Any]
    seed: int
    bytes_up: np.ndarray[Any, Any] | None = None
    noise_key: bytes | None = field(default=None, repr=False)


Before = Callable[["Job"], "Job"]
After = Callable[[Passed], Passed]


@old_fields(sent="sent_names")
@dataclass(frozen=True, slots=True)
class LocalPass:
    """What one client trains. Kernels only train it; `executors.client_half` does everything around.

    `train` says which names are trained (the rest stay frozen), `keep` which stay home in the client's memory, `sends` which
    go up (default: every leaf that is not kept; counters and other integers travel as they are), `slots` what else the client
    remembers, `then` what it trains next from where it is. `before` runs on the job before anything else, outermost first;
    `after` on the stack at the end, innermost first. `weigh` is what a report weighs in the mean, `max_samples` the most that it
    weighs by its samples (None: no limit). Of a `then`, only optimiser, batches, rate, terms, objective and train count. `up` is
    the codec of what goes up, after all hooks, and `feedback` says that the client adds what its codec lost to the next update;
    `down` is the codec in which the model came. `width` is the share of the model's width at which it is trained: what was offered
    has the shapes of the narrower model (`Task.narrow`).
    """

    optimiser: Optimiser
    batches: BatchPlan
    rate: float = field(default=0.1, compare=False)
    terms: tuple[GradientTerm, ...] = ()
    objective: Objective | None = None
    train: Names | None = None
    keep: Names | None = None
    sends: Names | None = None
    slots: tuple[Slot, ...] = ()
    second: SecondModel | None = None
    before: tuple[Before, ...] = ()
    after: tuple[After, ...] = ()
    then: LocalPass | None = None
    weigh: Literal["samples", "one"] = "samples"
    max_samples: int | None = None
    up: Codec | None = None
    down: Codec | None = None
    feedback: bool = False
    width: float = 1.0

    def stages(self) -> Iterator[LocalPass]:
        """This pass and all that follow it."""
        stage: LocalPass | None = self
        while stage is not None:
            yield stage
            stage = stage.then

    def work(self) -> Iterator[LocalPass]:
        """Every stage that the client trains: those of the model, and then those of a second one with a pass of its own."""
        yield from self.stages()
        if self.second is not None and self.second.own is not None:
            yield from self.second.own.stages()

    def weight_of(self, samples: float) -> float:
        """What the report of a client with so many samples weighs in the mean."""
        if self.weigh == "one":
            return 1.0
        return float(samples if self.max_samples is None else min(samples, self.max_samples))

    def remembers(self) -> bool:
        """Does the client keep anything for the next time?"""
        return self.keep is not None or bool(self.slots) or self.second is not None or self.feedback

    def sent_names(self, names: Mapping[str, Any]) -> list[str]:
        """Which of these leaves go up."""
        keep, sends = self.keep, self.sends
        return [n for n in names if not (keep is not None and keep(n)) and (sends is None or sends(n))]


def zeros_like(model: Tree) -> Tree:
    """A fresh slot of zeros, one per floating leaf of the model."""
    return {n: np.zeros_like(v) for n, v in model.items() if np.issubdtype(v.dtype, np.floating)}


NO_SETTINGS: Settings = {}
NO_MEMORY: Slots = {}


if not TYPE_CHECKING:
    __getattr__ = old_symbols(__name__, Carried="Carry", Pull="ProximalTerm", Drift="ConstantTerm", Second="SecondModel")


def remembers(half: object) -> bool:
    """Does a client with this half keep anything for the next time?"""
    return isinstance(half, NestedPass) or (isinstance(half, LocalPass) and half.remembers())
