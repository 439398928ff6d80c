"""Who will be left out of a run, and what those have in common: slow devices, seldom in reach, the labels that they hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedfleet.app.assemble import Setup
from fedfleet.app.studies.predict.participation import reachable_share, trip_seconds
from fedfleet.app.terminal.text import percent, span
from fedfleet.core.records import Bools, Floats
from fedfleet.measure.class_clock import Participation

_HARDLY = 0.1  # of an equal share of all reports
_OUT = 0.5  # who has fewer reports in models than this, on average over draws, is left out
_LONGER, _LESS = 1.2, 0.8  # differences that are worth a word


def exclusion_summary(setup: Setup, parts: Sequence[Participation], clock: Floats) -> dict[str, Any]:
    """The shares of clients that are in no model and hardly in any, how they differ from the others, and the labels with them."""
    folded = np.stack([part.folded_counts for part in parts])
    fair = float(folded.mean())
    hardly = (folded > 0) & (folded < _HARDLY * fair)
    excluded = folded.mean(axis=0) < max(_OUT, _HARDLY * fair)
    trips = trip_seconds(setup)
    reach = reachable_share(setup.world, max(part.seconds for part in parts))
    slow = trips > setup.plan.pace.patience
    shown = clock / clock.mean() if clock.mean() > 0 else np.ones(len(clock))
    result: dict[str, Any] = {
        "never": float((folded == 0).mean()),
        "hardly": float(hardly.mean()),
        "too_slow": float(slow.mean()),
        "trip_seconds": _group_medians(trips, excluded),
        "reachable": _group_medians(reach, excluded),
        "classes": {str(c): float(share) for c, share in enumerate(shown)},
    }
    return {**result, "sentence": _sentence(result)}


def _group_medians(values: Floats, excluded: Bools) -> dict[str, float | None]:
    """The median of those who are left out and of the others; None where there is nobody, or no number."""
    middle = [float(np.median(values[some])) if some.any() else math.nan for some in (excluded, ~excluded)]
    return dict(zip(("left_out", "others"), (m if math.isfinite(m) else None for m in middle), strict=True))


def _sentence(result: dict[str, Any]) -> str:
    if result["never"] + result["hardly"] == 0:
        return "Nobody will be left out."
    phrases = [
        f"{percent(result[key])} {phrase}"
        for key, phrase in (("never", "of clients will be in no model"), ("hardly", "of clients in hardly any"))
        if result[key]
    ]
    why = list[str]()
    trip, reach = result["trip_seconds"], result["reachable"]
    if result["too_slow"]:
        why.append(
            f"{percent(result['too_slow'])} of all clients need longer for a trip, on average, than a round waits"
        )
    if trip["left_out"] and trip["others"] and trip["left_out"] > _LONGER * trip["others"]:
        why.append(f"a trip takes those who are left out {span(trip['left_out'])} (others {span(trip['others'])})")
    if reach["left_out"] is not None and reach["others"] is not None and reach["left_out"] < _LESS * reach["others"]:
        why.append(
            f"those who are left out can be reached {percent(reach['left_out'])} of the run's time "
            f"(others {percent(reach['others'])})"
        )
    least = min(result["classes"], key=lambda c: result["classes"][c])
    labels = ""
    if result["classes"][least] < _LESS:
        labels = f" Label {least} is shown {percent(result['classes'][least])} as often as the labels are on average."
    return f"{' and '.join(phrases)}{': ' + '; '.join(why) if why else ''}.{labels}"
