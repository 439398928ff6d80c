"""Where the time went, in one sentence that is computed: facts beside each other, and what is not known said first."""

from __future__ import annotations

from collections.abc import Mapping

from fedfleet.measure.attribution.causes import FAILED, UNKNOWN, Attribution

# What each cause is to whoever reads "61 % of the time was ..".
MEANINGS: Mapping[str, str] = {
    "pause": "the pause between rounds",
    "reachability": "waiting until clients could be reached",
    "probes": "looking at clients before picking them",
    "latency": "the latency of links",
    "download": "waiting for downloads",
    "planning": "planning at edges",
    "exchange": "waiting for the exchange of samples inside edges",
    "averaging": "moving models between devices and their edge",
    "compute": "waiting for computing",
    "upload": "waiting for uploads",
    "delivery": "waiting for reports that were delivered late",
    "stragglers": "waiting for tasks whose work was not used",
    "slack": "waiting though nobody was at work",
    "failed": "lost in rounds that failed",
    "server": "the server's own work",
    "unknown": "not accounted for by the devices",
    "unfinished": "spent in a round that did not end",
}
_NAMED = 5  # clients that a sentence names
_MOST = 0.5  # of a cause: how much is "most of it"


def sentence(found: Attribution) -> str:
    """The largest cause, and who was behind it; the second too if that is not most of the time.

    If nobody knows where most of it went, the sentence says so first, and then the largest cause that is known.
    """
    total = found.virtual_seconds
    if total <= 0:
        return "No time has passed yet, so there is nothing to explain."
    ranked = sorted((c for c in found.causes if found.causes[c] > 0), key=lambda c: -found.causes[c])
    so_far = "" if found.ended else " so far"
    known = [c for c in ranked if c != UNKNOWN]
    if ranked[0] == UNKNOWN:
        said = f"Nobody knows where {share(found.causes[UNKNOWN], total)} of the time{so_far} went, since devices did not say"
        return f"{said}; of the rest, most was {_told(found, known[0])}." if known else f"{said}."
    first, second = known[0], known[1] if len(known) > 1 else None
    part = share(found.causes[first], total)
    said = f"{part[0].upper()}{part[1:]} of the time{so_far} was {_told(found, first)}"
    if second is None or found.causes[first] > _MOST * total:
        return f"{said}."
    return f"{said}; {share(found.causes[second], total)} was {MEANINGS[second]}."


def share(seconds: float, total: float) -> str:
    """A share for people, which says all only of all.

    >>> share(61.0, 100.0), share(999.0, 1000.0), share(1.0, 1000.0), share(5.0, 5.0)
    ('61 %', 'over 99 %', 'under 1 %', 'all')
    """
    if total <= 0.0:  # no time has passed: so says a journal that was forged, or has hardly begun
        return "none"
    part = seconds / total
    if part >= 1.0 - 1e-9:
        return "all"
    if part >= 0.995:
        return "over 99 %"
    return f"{100 * part:.0f} %" if part >= 0.005 else "under 1 %"


def _told(found: Attribution, cause: str) -> str:
    what = MEANINGS[cause]
    if cause == FAILED:
        return f"{what} ({_reasons(found)})"
    who = behind(found.who.get(cause, {}), found.causes[cause])
    return f"{what}, {who}" if who else what


def _reasons(found: Attribution) -> str:
    failed = [r for r in found.rounds if r.reason]
    reason = max(found.failures, key=lambda r: found.failures[r])
    mostly = "mostly " if len(found.failures) > 1 else ""
    return f"{len(failed):,} {'round' if len(failed) == 1 else 'rounds'}; {mostly}because {reason}"


def behind(who: Mapping[int, float], seconds: float) -> str:
    """Who was waited for: the fewest clients that make most of it, by name if they are few.

    >>> behind({12: 6.0, 7: 3.0, 1: 1.0}, 10.0), behind({4: 2.0}, 2.0), behind({}, 3.0)
    ('most of it for 1 client (12)', 'all of it for client 4', '')
    """
    if not who:
        return ""
    if len(who) == 1:
        (client,) = who
        return (
            f"all of it for client {client}"
            if who[client] >= (1 - 1e-9) * seconds
            else f"part of it for client {client}"
        )
    ranked = sorted(who, key=lambda c: (-who[c], c))
    count, held = 0, 0.0
    while held <= _MOST * seconds and count < len(ranked):
        held += who[ranked[count]]
        count += 1
    if held <= _MOST * seconds:
        return ""  # most of it was for nobody in particular
    if count > _NAMED:
        return f"spread over {len(who):,} clients"
    named = ", ".join(str(c) for c in ranked[:count])
    return f"most of it for {count} {'client' if count == 1 else 'clients'} ({named})"
