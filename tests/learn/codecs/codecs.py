"""Codecs with what they cannot do without, trees to send, and what travelling makes of them."""

from importlib.util import find_spec

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedfleet.core.registry import builder, names
from fedfleet.learn.codecs.messages import decode, encode

HERE = [name for name in names("codecs") if name != "zstd" or find_spec("zstandard") is not None]
NEEDED = {"lowrank": {"rank": 3}}
MORE = [("int4", {"rounding": "stochastic"}), ("gzip", {"shuffle": True}), ("deflate", {"shuffle": True, "effort": 1}),
        ("lowrank", {"energy": 0.9}), ("randomk", {"unbiased": True, "share": 0.3}), ("sketch", {"top": 1.0}),
        ("topk", {"share": 1.0})]  # fmt: skip
SETTINGS = [(name, NEEDED.get(name, {})) for name in names("codecs")] + MORE
CHAINS = [("topk", "int4", "gzip"), ("sketch", "fp16"), ("lowrank", "int8"), ("randomk", "bf16", "deflate")]


def codec(name, settings=None):
    """The codec of this name; without the package that it needs, the test is skipped."""
    if name not in HERE:
        import pytest

        pytest.skip("the package zstandard is not installed")
    return builder("codecs", name)(**(NEEDED.get(name, {}) if settings is None else settings))


def travelled(made, tree, address=0):
    """What arrives."""
    return decode(made, encode(made, tree, address), tree)


def leaves(*, finite=True, most=60):
    """Float32 leaves of any shape, scalars and empty ones too."""
    width = {"width": 32, "allow_nan": not finite, "allow_infinity": not finite, "allow_subnormal": not finite}
    numbers = st.floats(-(2.0**60) if finite else None, 2.0**60 if finite else None, **width)
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=most // 6)
    return shapes.flatmap(lambda shape: hnp.arrays(np.float32, shape, elements=numbers))


def femnist_like():
    """The leaves of FS-REAL's FEMNIST model, 3,327,934 numbers, without building it."""
    shapes = {
        "conv1.weight": (32, 1, 5, 5), "conv1.bias": (32,), "conv2.weight": (64, 32, 5, 5), "conv2.bias": (64,),
        "fc1.weight": (1024, 3136), "fc1.bias": (1024,), "fc2.weight": (62, 1024), "fc2.bias": (62,),
    }  # fmt: skip
    return {n: np.zeros(s, np.float32) for n, s in shapes.items()}
