"""What a rule may ask about the task without seeing the data: the application provides each by its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedfleet.core.records import Floats, Ints, Keys

LabelsOf = Callable[[Ints], Ints]  # the labels of rows of the dataset
Prior = Callable[[], Floats]  # the share of each class in the whole world's training data; as long as there are classes


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What exchanging samples depends on: the labels of rows, how many classes there are, the size of one sample, how often
    each is trained on, and, where classes shall be merged, what the model makes of each class: [classes, features]."""

    labels_of: LabelsOf
    classes: int
    bits_per_sample: float
    epochs: float
    features: Callable[[], Floats]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a builder may ask about the run that its part is built for, with a parameter of this type: how many clients there
    are, the seed, and how many rounds are planned."""

    clients: int
    seed: int
    rounds: int


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Which leaves of a model do what, as patterns over their names: its last layer, and its layers that normalise."""

    head: str
    norms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The model at some share of its width: what it holds of the whole model, and what it takes.

    `places[leaf]` are, axis by axis, the indices of its elements in the whole leaf; `work[leaf]` the multiply-adds of one sample's
    forward pass in which the leaf takes part; `activations` how many numbers training keeps of one sample.
    """

    places: Mapping[str, tuple[Ints, ...]]
    work: Mapping[str, float]
    activations: float


@dataclass(frozen=True, slots=True)
class FleetFacts:
    """What a builder may ask about model and devices, with a parameter of this type: the model's shape at a share of its width, the
    clients' keys, the seed, how much memory they have (NaN: unknown), how much larger the model is declared than it is, the kind
    of each client's device, the clients under each tag of the spec, and how long a trip of each would take at the start.

    Without arguments: nothing is known.
    """

    model: Callable[[float], ModelShape] | None = None
    keys: Keys = field(default_factory=lambda: np.zeros(0, np.uint64))
    seed: int = 0
    memory_mb: Callable[[Ints], Floats] | None = None
    byte_scale: float = 1.0
    kinds: Sequence[str] = ()
    tags: Mapping[str, Ints] = field(default_factory=dict[str, Ints])
    trip_seconds: Callable[[], Floats] | None = None


FactsOf = Callable[[], TaskFacts]
ModelOf = Callable[[], ModelFacts]  # a builder's parameter of this type gets the facts of the model that it is built for


def default_model_facts() -> ModelFacts:
    """The facts of a model that was not inspected: what FedFleet's own models call these layers."""
    return ModelFacts("head.*", ("*norm*.*",))
