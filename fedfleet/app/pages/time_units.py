"""Time on axes and in sentences, in units that people use."""

from __future__ import annotations

import math

_UNITS = (("s", 1.0), ("min", 60.0), ("h", 3600.0), ("days", 86400.0))
_STEPS: dict[str, tuple[float, ...]] = {
    "s": (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30),
    "min": (1, 2, 5, 10, 20, 30),
    "h": (1, 2, 4, 8, 12),
    "days": (1, 2, 4, 7, 14, 30, 60, 120, 365, 1000, 3000, 10000),
}
_LADDER = tuple((step * length, step, unit) for unit, length in _UNITS for step in _STEPS[unit])


def log_time_ticks(low: float, high: float, most: int = 7) -> list[tuple[str, float]]:
    """Ticks of a logarithmic axis of time: (label, seconds).

    >>> log_time_ticks(50, 20_000)
    [('1 min', 60.0), ('2 min', 120.0), ('10 min', 600.0), ('20 min', 1200.0), ('1 h', 3600.0), ('2 h', 7200.0)]
    """
    inside = [(_unit_text(step, unit), seconds) for seconds, step, unit in _LADDER if low <= seconds <= high]
    if len(inside) < 3:  # a narrow range
        return linear_time_ticks(low, high, min(most, 5))
    if len(inside) > most:  # the plainest first: ones, then ones and twos
        simple = [m for m in inside if m[0].split()[0] in ("0.1", "0.01", "1", "2", "10", "20")]
        inside = simple if len(simple) >= 3 else inside
        inside = inside[:: -(-len(inside) // most)]
    return inside


def linear_time_ticks(low: float, high: float, most: int = 6) -> list[tuple[str, float]]:
    """Ticks of a linear axis of time at whole multiples of a round step.

    >>> linear_time_ticks(0, 140)
    [('0', 0.0), ('30 s', 30.0), ('1 min', 60.0), ('1.5 min', 90.0), ('2 min', 120.0)]
    >>> linear_time_ticks(0, 1e12, 3)
    [('0', 0.0), ('1e+07 days', 864000000000.0)]
    """
    step, each, unit = next((s for s in _LADDER if (high - low) / s[0] <= most), None) or _long_step((high - low) / most)
    first, last = -int(-low // step), int(high // step)
    natural = [_natural_text(i * step) for i in range(first, last + 1)]
    all_natural = all(natural)  # else all of them in the unit of the step: 60 s between 40 s and 80 s
    return [(label if all_natural or not i else _unit_text(i * each, unit), i * step) for i, label in enumerate(natural, first)]


def _long_step(seconds: float) -> tuple[float, float, str]:
    """A step of at least so many seconds, beyond those that have a usual length: a power of ten in days."""
    days = 10.0 ** math.ceil(math.log10(seconds / 86400.0))
    return days * 86400.0, days, "days"


def _natural_text(seconds: float) -> str:
    """The time in its natural unit, if it is half a number of these or a whole one."""
    length = _natural_unit(seconds)[1]
    return plain_time(seconds) if abs(2 * seconds / length - round(2 * seconds / length)) < 1e-9 else ""


def plain_time(seconds: float) -> str:
    """A length of time in its natural unit.

    >>> plain_time(0), plain_time(45.04), plain_time(90), plain_time(5400), plain_time(-90), plain_time(250_000), plain_time(3e-11)
    ('0', '45 s', '1.5 min', '1.5 h', '-1.5 min', '2.9 days', '0')
    """
    if abs(seconds) < 1e-6:  # what is left of differences of sums
        return "0"
    unit, length = _natural_unit(seconds)
    value = seconds / length
    return _unit_text(float(f"{value:.0f}" if abs(value) >= 10 else f"{value:.2g}"), unit)


def _natural_unit(seconds: float) -> tuple[str, float]:
    return next(u for u in reversed(_UNITS) if abs(seconds) >= u[1] or u[1] == 1.0)


def _unit_text(value: float, unit: str) -> str:
    return f"{value:,.4g} {'day' if unit == 'days' and value == 1 else unit}"
