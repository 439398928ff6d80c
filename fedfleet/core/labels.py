"""What rules inside a user may know of the samples: their labels, and how common each is in the world."""

from __future__ import annotations

from collections.abc import Callable

from fedfleet.core.records import Floats, Ints

LabelsOf = Callable[[Ints], Ints]  # the labels of these rows of the dataset
Prior = Callable[[], Floats]  # the share of each label among all training rows
