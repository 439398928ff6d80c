"""Figures in words that people use, and the sentences of a comparison: all of them computed."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from fedfleet.app.terminal.text import span
from fedfleet.measure.score_info import ScoreInfo

_KEY = re.compile(r"[a-z]\w*([._=]\w|\s+\d)|[a-z]+_")
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def whole_percent(share: float | None) -> str:
    """A share of one as whole per cent, which says all only of all and none only of none.

    >>> whole_percent(0.947), whole_percent(0.0), whole_percent(0.998), whole_percent(0.001), whole_percent(None)
    ('95 %', '0 %', 'over 99 %', 'under 1 %', '-')
    """
    if share is None:
        return "-"
    if 0 < share <= 0.005:
        return "under 1 %"
    return "over 99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def time_text(seconds: float) -> str:
    """A length of time; from ten of a unit on without decimals.

    >>> time_text(45.0), time_text(5000.0), time_text(14_400.0), time_text(90_000.0), time_text(1_806_000.0)
    ('45 s', '83 min', '4 h', '25 h', '21 days')
    """
    text = span(seconds)
    value, unit = text.split()
    if float(value) >= 10 or value.endswith(".0"):
        return f"{float(value):.0f} {unit}"
    return text


def share_range(shares: Sequence[float]) -> str:
    """The lowest and the highest of some shares.

    >>> share_range([0.46, 0.84, 0.55]), share_range([0.9]), share_range([0.901, 0.902])
    ('46 to 84 %', '90 %', '90 %')
    """
    low, high = whole_percent(min(shares)), whole_percent(max(shares))
    return high if low == high else f"{low.removesuffix(' %')} to {high}"


def score_range(score: ScoreInfo, values: Sequence[float]) -> str:
    """The lowest and the highest of some scores.

    >>> score_range(ScoreInfo(), [0.46, 0.84])
    '46 to 84 %'
    """
    if score.kind.percent:
        return share_range(values)
    low, high = score.brief(min(values)), score.brief(max(values))
    return high if low == high else f"{low} to {high}"


def time_range(seconds: Sequence[float]) -> str:
    """The shortest and the longest of some times.

    >>> time_range([3600.0, 9000.0]), time_range([14_400.0, 1_806_000.0])
    ('60 min to 2.5 h', '4 h to 21 days')
    """
    low, high = time_text(min(seconds)), time_text(max(seconds))
    if low == high:
        return high
    a, unit = low.split()
    return f"{a} to {high}" if high.endswith(f" {unit}") else f"{low} to {high}"


def count_words(n: int, one: str, many: str = "") -> str:
    """A number with its noun, small ones in words.

    >>> count_words(3, "seed"), count_words(1, "seed"), count_words(24, "run")
    ('three seeds', 'one seed', '24 runs')
    """
    number = _NUMBERS[n] if n < len(_NUMBERS) else f"{n:,}"
    return f"{number} {one if n == 1 else many or one + 's'}"


def mean_count(value: float) -> str:
    """A mean of counts: whole, or with one decimal where there are few.

    >>> mean_count(81.0), mean_count(2.33), mean_count(26.7)
    ('81', '2.3', '27')
    """
    return f"{value:,.0f}" if value >= 10 or math.isclose(value, round(value)) else f"{value:.1f}"


def capitalise(sentence: str) -> str:
    """The sentence with a capital first letter, unless it begins with a key: that is a name, and would be another one.

    >>> capitalise("on severe none is best"), capitalise("lr 0.5 is best"), capitalise("algorithm.lr=1.0 is best"), capitalise("digits_mlp")
    ('On severe none is best', 'lr 0.5 is best', 'algorithm.lr=1.0 is best', 'digits_mlp')
    """
    key = _KEY.match(sentence)
    return sentence if key else sentence[:1].upper() + sentence[1:]


def p_value_text(p: float | None) -> str:
    """A p value as far as it is worth saying.

    >>> p_value_text(0.0004), p_value_text(0.0312), p_value_text(0.42), p_value_text(None)
    ('< 0.001', '0.031', '0.42', '-')
    """
    return "-" if p is None else "< 0.001" if p < 0.001 else f"{p:.2g}"
