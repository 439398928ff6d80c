"""Room in a sum: how many reports one commit can have, and how much each may weigh, so that all fit whoever comes first.

A sum of fixed-point numbers has a largest total weight. If one report could claim all of it, the order of arrival would decide
which reports are refused. So the plan of a run divides the room before the run begins: `most_reports` reports, each of
`total_weight / most_reports` at most (`Fold.heaviest`). What a client claims then decides about its own report alone.
"""

from __future__ import annotations

import math
from dataclasses import replace

from fedfleet.core.parts import Algorithm, Policy
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Ints


def most_reports(pace: Policy, clients: int) -> int:
    """The most reports that a commit of this policy can have in a fleet of that many clients.

    Tasks that earlier rounds left running are one for each client at most. A policy that does not say what it sends is taken to
    send each client one task more.
    """
    if pace.most_reports is None:
        return clients + max(pace.cohort, pace.holds or 0)
    return pace.most_reports + (clients if pace.late_reports else 0)


def with_room(algorithm: Algorithm, pace: Policy, clients: int, sizes: Ints, *, forwarded: bool = False) -> Algorithm:
    """The algorithm whose sums have room for as many reports as a commit can have, each as heavy as a client's samples can make it.

    Where that is more than the fold's `total_weight`, the next power of two takes its place: each doubling costs one of the bits
    behind the point. Otherwise no bit of a sum changes. `forwarded`: reports are sums of an edge, which weigh more than 1.
    """
    fold, reports = algorithm.fold, most_reports(pace, clients)
    total_weight, largest = fold.total_weight, float(max(sizes.max(initial=1), 1))
    if reports * largest > total_weight and not forwarded:
        largest = _heaviest_report(algorithm, clients, largest)
    if reports * largest > total_weight:
        total_weight = 2.0 ** math.ceil(math.log2(reports * largest))
    return replace(algorithm, fold=replace(fold, total_weight=total_weight, most_reports=reports))


def _heaviest_report(algorithm: Algorithm, clients: int, largest: float) -> float:
    """What the report of a client with the most samples can weigh; of an opaque pass, its samples."""
    halves = (algorithm.local(client, NO_SETTINGS) for client in range(clients))
    return max(half.weight_of(largest) if isinstance(half, LocalPass) else largest for half in halves)
