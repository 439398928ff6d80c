"""Where the time went, in one sentence that is computed: facts beside each other, and what is not known said first."""

from __future__ import annotations

from collections.abc import Mapping

from fedfleet.measure.attribution.causes import FAILED, UNKNOWN, Attribution

# Each cause as the end of the sentence "61 % of the time was ..".
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
    "slack": "waiting while no client was training",
    "failed": "lost in rounds that failed",
    "server": "the server's own work",
    "unknown": "not accounted for by the devices",
    "unfinished": "spent in a round that did not end",
}
_MAX_CLIENTS = 5  # clients that a sentence names
_MOST = 0.5  # of a cause: how much is "most of it"


def sentence(attribution: Attribution) -> str:
    """The largest cause, and who was behind it; the second too if that is not most of the time.

    If the cause of most of it is unknown, the sentence says so first, and then the largest cause that is known.
    """
    total = attribution.virtual_seconds
    if total <= 0:
        return "No time has passed yet, so there is nothing to explain."
    ranked = sorted((c for c in attribution.causes if attribution.causes[c] > 0), key=lambda c: -attribution.causes[c])
    so_far = "" if attribution.ended else " so far"
    known = [c for c in ranked if c != UNKNOWN]
    if ranked[0] == UNKNOWN:
        text = f"Nobody knows where {share(attribution.causes[UNKNOWN], total)} of the time{so_far} went, since devices did not say"
        return f"{text}; of the rest, most was {_cause_text(attribution, known[0])}." if known else f"{text}."
    first, second = known[0], known[1] if len(known) > 1 else None
    part = share(attribution.causes[first], total)
    text = f"{part[0].upper()}{part[1:]} of the time{so_far} was {_cause_text(attribution, first)}"
    if second is None or attribution.causes[first] > _MOST * total:
        return f"{text}."
    return f"{text}; {share(attribution.causes[second], total)} was {MEANINGS[second]}."


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


def _cause_text(attribution: Attribution, cause: str) -> str:
    meaning = MEANINGS[cause]
    if cause == FAILED:
        failed = [r for r in attribution.rounds if r.reason]
        reason = max(attribution.failures, key=lambda r: attribution.failures[r])
        mostly = "mostly " if len(attribution.failures) > 1 else ""
        return f"{meaning} ({len(failed):,} {'round' if len(failed) == 1 else 'rounds'}; {mostly}because {reason})"
    who = clients_text(attribution.who.get(cause, {}), attribution.causes[cause])
    return f"{meaning}, {who}" if who else meaning


def clients_text(who: Mapping[int, float], seconds: float) -> str:
    """Who was waited for: the fewest clients that make most of it, by name if they are few.

    >>> clients_text({12: 6.0, 7: 3.0, 1: 1.0}, 10.0), clients_text({4: 2.0}, 2.0), clients_text({}, 3.0)
    ('most of it for 1 client (12)', 'all of it for client 4', '')
    """
    if not who:
        return ""
    if len(who) == 1:
        (client,) = who
        return f"all of it for client {client}" if who[client] >= (1 - 1e-9) * seconds else f"part of it for client {client}"
    ranked = sorted(who, key=lambda c: (-who[c], c))
    count, sum_seconds = 0, 0.0
    while sum_seconds <= _MOST * seconds and count < len(ranked):
        sum_seconds += who[ranked[count]]
        count += 1
    if sum_seconds <= _MOST * seconds:
        return ""  # no few clients account for most of it
    if count > _MAX_CLIENTS:
        return f"spread over {len(who):,} clients"
    names = ", ".join(str(c) for c in ranked[:count])
    return f"most of it for {count} {'client' if count == 1 else 'clients'} ({names})"
