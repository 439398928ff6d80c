"""What a rule may ask about the task without seeing the data: the application provides each by its type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedfleet.core.records import Floats, Ints

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


FactsOf = Callable[[], TaskFacts]
ModelOf = Callable[
    [], ModelFacts
]  # a builder's parameter of this type gets the facts of the model that it is built for


def names_alone() -> ModelFacts:
    """The facts of a model that nobody has looked at: what FedFleet's own models call these layers."""
    return ModelFacts("head.*", ("*norm*.*",))
