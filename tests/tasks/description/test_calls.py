"""Every function that is written down becomes an operation that descriptions know and that numpy computes."""

import inspect

import pytest

from fedfleet.executors.numpy.model import KNOWN
from fedfleet.tasks.description import calls, layer_calls
from fedfleet.tasks.description.calls import IGNORED, TRANSLATIONS
from fedfleet.tasks.description.format import OPERATIONS
from fedfleet.tasks.description.layer_calls import LAYER_CALLS, Untranslatable


def test_descriptions_and_the_numpy_engine_know_the_same_operations():
    assert OPERATIONS.keys() == KNOWN.keys()


def test_what_is_ignored_is_not_written_down():
    assert not IGNORED & TRANSLATIONS.keys() and LAYER_CALLS.keys() <= TRANSLATIONS.keys()


def test_every_operation_that_is_written_is_known():
    source = inspect.getsource(calls) + inspect.getsource(layer_calls)
    for name in OPERATIONS:
        assert f'"{name}"' in source, name


class Writer:
    """Takes what is written down."""

    def __init__(self):
        self.leaves, self.values = {}, {}

    def add(self, result, name, inputs, **settings):
        self.written = name, settings


class Array:
    """Enough of a tensor."""

    ndim, shape = 4, (2, 3, 9, 9)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("max_pool2d", {"kernel_size": 2, "ceil_mode": True}),
        ("avg_pool2d", {"kernel_size": 2, "divisor_override": 3}),
        ("adaptive_avg_pool2d", {"output_size": 2}),
        ("scaled_dot_product_attention", {"key": None, "value": None, "attn_mask": 1}),
        ("embedding", {"weight": None, "max_norm": 1.0}),
        ("batch_norm", {"running_mean": None, "running_var": None}),
    ],
)
def test_settings_without_an_operation_are_refused(name, given):
    class Smaller(Array):
        shape = (2, 3, 2, 2)

    with pytest.raises(Untranslatable):
        LAYER_CALLS[name](Writer(), Smaller(), Array(), **given)
