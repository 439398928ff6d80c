"""Student's t: the one distribution that means over few seeds need. SciPy is loaded when it is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fedfleet.core.errors import BadInput

LEVEL = 0.95  # of every interval here


def quantile(freedom: int) -> float:
    """How many standard errors reach to either side of a mean: the 97.5 % point with so many degrees of freedom.

    >>> [round(quantile(n), 3) for n in (1, 2, 4)]
    [12.706, 4.303, 2.776]
    """
    return float(_scipy_special().stdtrit(freedom, 0.5 + LEVEL / 2))


def two_sided_p(t: float, freedom: int) -> float:
    """How often chance alone gives a t at least this far from 0.

    >>> round(two_sided_p(quantile(4), 4), 6)
    0.05
    """
    return float(2.0 * _scipy_special().stdtr(freedom, -abs(t)))


def _scipy_special() -> Any:
    try:
        return import_module("scipy.special")
    except ImportError:
        raise BadInput("intervals need scipy, which is not installed; install fedfleet[train]") from None
