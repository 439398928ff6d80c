"""Numbers as people say them: shares, counts, deadlines that are round."""

from __future__ import annotations

import re

from fedfleet.app.pages.time_units import plain_time

_PARTS = ((0.5, "half"), (1 / 3, "a third"), (0.25, "a quarter"), (0.2, "a fifth"), (0.1, "a tenth"), (2 / 3, "two thirds"))
_NEAR = 0.008  # of one: how near a share must be to be called by its plain name
ROUND_SECONDS = (
    1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 150, 180, 240, 300, 420, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200, 10800, 14400,
    21600, 43200, 86400, 172800, 604800,
)  # fmt: skip


def per_cent(share: float) -> str:
    """A share without needless digits, which says 100 % and 0 % only of all and nothing.

    >>> per_cent(0.552), per_cent(0.9996), per_cent(1.0), per_cent(0.0004), per_cent(0.034)
    ('55 %', 'over 99 %', '100 %', 'under 1 %', '3 %')
    """
    if 0.995 <= share < 1.0:
        return "over 99 %"
    return "under 1 %" if 0.0 < share <= 0.005 else f"{100 * share:.0f} %"


def share_name(share: float) -> str:
    """A share by its plain name where it has one.

    >>> share_name(0.104), share_name(0.5), share_name(0.42), share_name(1.0)
    ('a tenth', 'half', '42 %', 'all')
    """
    if share >= 1.0 - 1e-12:
        return "all"
    return next((name for value, name in _PARTS if abs(share - value) <= _NEAR), per_cent(share))


def count_noun(n: int, one: str, more: str = "") -> str:
    """A count with its noun.

    >>> count_noun(1, "round"), count_noun(1200, "round"), count_noun(2, "person", "people")
    ('1 round', '1,200 rounds', '2 people')
    """
    return f"{n:,} {one if n == 1 else more or one + 's'}"


def duration(seconds: float) -> str:
    """A length of time: whole seconds up to ten minutes where they are round, else in its natural unit.

    >>> duration(120.0), duration(95.0), duration(1800.0), duration(14_000.0)
    ('120 s', '95 s', '30 min', '3.9 h')
    """
    return f"{seconds:,.0f} s" if seconds <= 300 and seconds == round(seconds) else plain_time(seconds)


_ARRIVED = re.compile(r"\b(\d+) of at least (\d+) reports arrived\b")


def as_people(text: str, people: str = "clients", person: str = "client") -> str:
    """What the journal says of clients and reports, as a reader says it.

    >>> as_people("spread over 46 clients", "devices", "device"), as_people("all of it for client 7")
    ('spread over 46 devices', 'all of it for client 7')
    >>> as_people("because 0 of at least 1 reports arrived"), as_people("1 of at least 2 reports arrived")
    ('because no report came in time', 'only 1 of the 2 reports that are needed came in time')
    """

    def arrival_phrase(match: re.Match[str]) -> str:
        n, need = match.groups()
        return "no report came in time" if n == "0" else f"only {n} of the {need} reports that are needed came in time"

    text = re.sub(r"(?<![.\w])clients\b", people, _ARRIVED.sub(arrival_phrase, text))
    return re.sub(r"(?<![.\w])client\b", person, text)


def next_round_time(seconds: float) -> float | None:
    """The next round length of time; None beyond a week.

    >>> next_round_time(251.0), next_round_time(1e9)
    (300, None)
    """
    return next((r for r in ROUND_SECONDS if r >= seconds), None)
