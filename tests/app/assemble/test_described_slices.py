"""What a device reads of slices of its model: the shapes that the server asked PyTorch for, and nothing that could hurt it."""

import json

import numpy as np
import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.described_slices import describer, shape_reader
from fedfleet.app.assemble.described_task import description_entry, model_of_entry
from fedfleet.app.assemble.slice_entries import slice_entries
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput, Refused
from fedfleet.tasks.narrow_models import shape_at

pytestmark = pytest.mark.slow

CNN = {"use": "digits_cnn", "channels": 4, "norm": "group"}


def setup_of(algorithm="heterofl", task=CNN, **more):
    return assemble(
        resolve({"task": task, "algorithm": {"use": algorithm, **more}, "world": {"clients": 4}, "pace": {"cohort": 2}})
    )


@pytest.mark.parametrize(("algorithm", "widths"), [("heterofl", {1.0, 0.5, 0.25}), ("timelyfl", {1.0}), ("fedavg", set())])
def test_shapes_travel_as_json_and_come_back_the_same(algorithm, widths):
    setup = setup_of(algorithm)
    entry = json.loads(json.dumps(slice_entries(setup)))
    assert {float(width) for width in entry.get("shapes", {})} == widths
    for width in widths:
        mine, theirs = shape_reader(entry)(width), shape_at(setup.task, width)
        assert mine.work == dict(theirs.work) and mine.activations == theirs.activations
        for name, axes in theirs.places.items():
            assert all(np.array_equal(a, b) for a, b in zip(mine.places[name], axes, strict=True))


def test_a_slice_is_described_at_its_own_width():
    entry = json.loads(json.dumps(description_entry(setup_of())))
    whole, _ = model_of_entry(entry, "numpy")
    describe = describer(entry, whole)
    assert describe(1.0) is whole
    half = describe(0.5)
    assert {n: len(shape) for n, (shape, _) in half.leaves.items()} == {n: len(shape) for n, (shape, _) in whole.leaves.items()}
    assert half.leaves["head.weight"][0] < whole.leaves["head.weight"][0]
    with pytest.raises(BadInput, match=r"width 0\.3; start this device with --engine torch"):
        describe(0.3)


def test_a_width_that_the_server_does_not_describe_is_one_sentence():
    with pytest.raises(BadInput, match=r"at the width 0\.5"):
        shape_reader({})(0.5)


@pytest.mark.parametrize(
    "entry",
    [
        {"shapes": [1, 2]},
        {"shapes": {str(n): {} for n in range(1, 40)}},
        {"shapes": {"0.5": {"places": {"w": [[[0, 1 << 40]]]}, "work": {}, "activations": 1.0}}},
        {"shapes": {"0.5": {"places": {"w": [[[-1, 2]]]}, "work": {}, "activations": 1.0}}},
    ],
)
def test_what_a_hostile_server_writes_is_refused_before_it_takes_memory(entry):
    with pytest.raises(Refused):
        shape_reader(entry)(0.5)
