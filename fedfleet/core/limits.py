"""Number types with their limits, for builders' signatures: the signature is the only schema of a part.

Every number has an upper limit, so that what a spec asks for can be checked before memory is taken: nothing here is infinite,
but for a wait without an end. The reference page of the spec states the general ones.
"""

from __future__ import annotations

import re
from typing import Annotated

from fedfleet.core.bounds import Ge, Gt, Le, Lt, Predicate

SMALLEST, LARGEST = 1e-12, 1e15  # of numbers that must be positive: beyond, sums and quotients overflow
MAX_COUNT = 2**31 - 1  # of anything that is counted
MAX_CLIENTS = 100_000_000
MAX_SEED = 2**63 - 1  # seeds travel as 64-bit numbers

_TARGET = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(<=|>=)\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*")


def read_target(text: str) -> tuple[str, bool, float] | None:
    """The measure of a target, whether at least its limit is wanted, and the limit; None if the text is no target.

    >>> read_target("rmse <= 3.5"), read_target("own.f1>=0.9"), read_target("rmse = 3")
    (('rmse', False, 3.5), ('own.f1', True, 0.9), None)
    """
    match = _TARGET.fullmatch(text)
    try:
        return None if match is None else (match[1], match[2] == ">=", float(match[3]))
    except ValueError:
        return None


def is_target(text: str) -> bool:
    """Is this a target such as "rmse <= 3.5"?"""
    return read_target(text) is not None


Positive = Annotated[float, Ge(SMALLEST), Le(LARGEST)]
NonNegative = Annotated[float, Ge(0), Le(LARGEST)]
LogSpread = Annotated[float, Ge(0), Le(10)]  # a deviation of a logarithm: six of them are a factor of 1e26
Waiting = Annotated[float, Gt(0)]  # seconds, or infinite: as long as it takes
Horizon = Annotated[float, Gt(0), Le(1e12)]  # seconds: beyond, moments can no longer be told apart
Share = Annotated[float, Ge(SMALLEST), Le(1)]
Part = Annotated[float, Gt(0), Lt(1)]  # neither nothing nor all
Ratio = Annotated[float, Gt(1), Le(LARGEST)]  # of a largest to a smallest
Fraction = Annotated[float, Ge(0), Le(1)]
Bound = Annotated[float, Ge(2.0**-30), Le(2.0**30)]  # of an element of an update: the sums must fit into 64 bits
Count = Annotated[int, Ge(1), Le(MAX_COUNT)]
Natural = Annotated[int, Ge(0), Le(MAX_COUNT)]
Seed = Annotated[int, Ge(0), Le(MAX_SEED)]
Clients = Annotated[int, Ge(1), Le(MAX_CLIENTS)]
Threads = Annotated[int, Ge(1), Le(1024)]
Width = Annotated[int, Ge(1), Le(2**20)]  # of a layer; whether the model fits is found before it is built
Depth = Annotated[int, Ge(1), Le(256)]  # layers, or rows of a sketch
Side = Annotated[int, Ge(1), Le(1024)]  # pixels
Kinds = Annotated[int, Ge(1), Le(1_000_000)]
Sessions = Annotated[int, Ge(1), Le(10_000)]
Epochs = Annotated[int, Ge(1), Le(10_000)]
Steps = Annotated[int, Ge(1), Le(1_000_000)]  # of one client in one round
TargetText = Annotated[str, Predicate(is_target)]  # of a measure, such as "rmse <= 3.5"
Words = Annotated[int, Ge(0), Le(1000)]  # of a text, one vector each
