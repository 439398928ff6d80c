"""What the fleets of studies/predict.py say together: how near predictions come, beside other measures, and the error band."""

from __future__ import annotations

import itertools
import json
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

TAIL = 3.0  # percent beyond each end of the band, which shall hold nine of ten: few fleets show too little of their tails
PLACES = (0.0, 0.5, 0.75, 0.88, 0.96, 1.0)  # borders of progress, from the untrained to the ideal model
RECORD = Path(__file__).with_name("predict.json")
INTRODUCTION = """# Predicted, then trained

The accuracy that `fedfleet predict` predicts for fleets, and the accuracy of training on them: `python -m studies.predict --split SPLIT --publish` repeats it.
100 clients, cohorts of 20, FedAvg under a deadline, as many bytes as ViT-B/16; every fleet has devices, states and a deadline of its own.
r is Pearson's over fleets, between the prediction and the accuracy of the last model, with a 95 % bootstrap interval over
fleet draws; the prediction uses other draws of the selection than the run's own; *own choices*: with those of the run, which a simulation could know.
InterMC-R is measured with the run's own cohort, rounds, deadline and work. *Bias* is predicted minus trained, in points. *In the band*: the
share of runs that ended inside the band of `fedfleet predict`, which is made for nine of ten. Fleets for which fewer than 5 commits are foreseen
were drawn again. How a prediction is made: [prediction](../docs/explanation/prediction.md).
"""
SPLITS = {  # in the order of the page, with what was decided on them
    "development": "The first form was made on these (gamma = 0.15 for every task).",
    "test": "The first form was judged on these. These two tables are of that form; a repetition gives figures of the present one.",
    "calibration": "On these it was decided how gamma is read off reference runs, and the error band was made (which therefore holds more of them than it will of others). Models were tried every third commit.",
    "fresh": "Drawn, predicted and trained once, after the form had been fixed. No fleet of Fashion-MNIST was looked at before. With gamma by task the error is lower on "
    "WISDM and Fashion-MNIST, and not on digits, for which the one gamma before had been chosen; bias is nearly gone. It stays.",
}


def interval(x: Any, y: Any, *, draws: int = 2000) -> tuple[float, float, float]:
    """Pearson's r with its 95 % percentile bootstrap interval over fleets."""
    from fedfleet.measure.statistics.correlation import correlation

    found = correlation(np.asarray(x, float).tolist(), np.asarray(y, float).tolist(), draws=draws)
    r, low, high = (float("nan") if v is None else v for v in (found.r, found.low, found.high))
    return r, low, high


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures of some fleets."""
    names = ("predicted", "own", "trained", "InterMC-R", "speed sd", "foreseen", "commits", "low", "high")
    column = {name: np.array([row[name] for row in rows], float) for name in names}
    clusters, trained = [row.get("cluster", row["name"]) for row in rows], column["trained"]

    def r(name: str) -> tuple[float, float, float]:
        return interval(column[name], trained)  # over fleet draws, of which each fleet has its own

    error, seconds = (
        column["predicted"] - trained,
        [float(row["seconds"]) for row in rows if row["seconds"] is not None],
    )
    off = np.abs(column["foreseen"] - column["commits"]) / np.maximum(column["commits"], 1)
    found = {
        "fleets": len(rows), "clusters": len(set(clusters)), "r": r("predicted"), "r_own": r("own"),
        "mean_error_own": float(np.abs(column["own"] - trained).mean()), "InterMC-R": r("InterMC-R"), "speed sd": r("speed sd"),
        "mean_error": float(np.abs(error).mean()), "bias": float(error.mean()),
        "commits_off_median": float(np.median(off)), "commits_off_worst": float(off.max()),
        "seconds_median": float(np.median(seconds)) if seconds else None, "seconds_worst": max(seconds, default=None),
        "in_band": float(np.mean((column["low"] <= trained) & (trained <= column["high"]))), "trained_sd": float(trained.std()),
    }  # fmt: skip
    return found | _before(rows, clusters, trained, np.abs(error))


def _before(rows: Sequence[dict[str, Any]], clusters: Sequence[Hashable], trained: Any, error: Any) -> dict[str, Any]:
    """The same of the form with one gamma for every task, where it was asked; and by how much its error is larger, with an interval."""
    if not all("before" in row for row in rows):
        return {}
    was = np.array([row["before"] for row in rows], float)
    gain = np.abs(was - trained) - error
    return {
        "r_before": interval(was, trained), "mean_error_before": float(np.abs(was - trained).mean()),
        "bias_before": float((was - trained).mean()), "gain": mean_interval(gain, clusters),
        "exponent": [float(f([row["exponent"] for row in rows])) for f in (min, np.median, max)],
    }  # fmt: skip


def mean_interval(values: Any, clusters: Sequence[Hashable], *, draws: int = 2000) -> tuple[float, float, float]:
    """A mean and its 95 % percentile bootstrap interval over redrawn clusters."""
    names = sorted(set(clusters), key=str)
    rng, place = np.random.default_rng(0), {name: i for i, name in enumerate(names)}
    at = np.array([place[c] for c in clusters])
    sums, sizes = np.bincount(at, values, len(names)), np.bincount(at, minlength=len(names))
    drawn = rng.integers(len(names), size=(draws, len(names)))
    low, high = np.percentile(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), [2.5, 97.5])
    return float(np.mean(values)), float(low), float(high)


def groups(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """All fleets, those of each task, those of each kind of data."""
    found = {"all": list(rows)}
    for key in ("task", "data"):
        for value in dict.fromkeys(row[key] for row in rows):
            found[value] = [row for row in rows if row[key] == value]
    return {name: some for name, some in found.items() if len(some) > 2}


def failing(rows: Sequence[dict[str, Any]], most: int = 6) -> list[dict[str, Any]]:
    """The fleets whose predictions were farthest off."""
    kept = ("name", "data", "predicted", "trained", "foreseen", "commits", "effective")
    worst = sorted(rows, key=lambda row: -abs(row["predicted"] - row["trained"]))[:most]
    return [{**{key: row[key] for key in kept}, "deadline": row["table"]["pace"]["seconds"]} for row in worst]


def _said(r: Sequence[float]) -> str:
    return f"{r[0]:.2f} [{r[1]:.2f}, {r[2]:.2f}]"


def markdown(split: str, found: dict[str, dict[str, Any]], worst: Sequence[dict[str, Any]]) -> str:
    """The table of a split, the form before beside it where that was asked, and where predictions fail."""
    lines = [
        f"## {split.capitalize()} fleets", "", SPLITS[split], "",
        "| fleets | r | r, own choices | InterMC-R's r | r of the speeds' sd | mean error, points (own choices) | bias | commits off, median | in the band | s a prediction, median (worst) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *(
            f"| {name} ({s['fleets']}) | {_said(s['r'])} | {_said(s['r_own'])} | {_said(s['InterMC-R'])} | {_said(s['speed sd'])} | {100 * s['mean_error']:.1f} ({100 * s['mean_error_own']:.1f}) | "
            f"{100 * s['bias']:+.1f} | {100 * s['commits_off_median']:.1f} % | {100 * s['in_band']:.0f} % | {_timed(s)} |"
            for name, s in found.items()
        ),
        *_beside(found),
        "", "Where it fails most:", "",
        "| fleet | data | deadline, s | predicted | trained | commits foreseen, made | share of samples |", "| --- | --- | --- | --- | --- | --- | --- |",
        *(
            f"| {row['name']} | {row['data']} | {row['deadline']:.0f} | {100 * row['predicted']:.1f} % | {100 * row['trained']:.1f} % | "
            f"{row['foreseen']:.0f}, {row['commits']} | {100 * row['effective']:.0f} % |"
            for row in worst
        ),
    ]  # fmt: skip
    return "\n".join([*lines, ""])


def _timed(s: dict[str, Any]) -> str:
    return "not timed" if s["seconds_median"] is None else f"{s['seconds_median']:.2f} ({s['seconds_worst']:.2f})"


def _beside(found: dict[str, dict[str, Any]]) -> list[str]:
    """The table of both forms on the same fleets."""
    if not all("gain" in s for s in found.values()):
        return []
    return [
        "", "The same fleets with one gamma (0.15) for every task, as before. The interval of the difference redraws all fleets that share data and a first model at once; with fewer than five such draws it says little.", "",
        "| fleets (draws of data) | r | r before | mean error | before | less error now, points | bias | before | gamma, median (range) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *(
            f"| {name} ({s['fleets']}, {s['clusters']}) | {_said(s['r'])} | {_said(s['r_before'])} | {100 * s['mean_error']:.1f} | {100 * s['mean_error_before']:.1f} | "
            f"{100 * s['gain'][0]:.1f} [{100 * s['gain'][1]:.1f}, {100 * s['gain'][2]:.1f}] | {100 * s['bias']:+.1f} | {100 * s['bias_before']:+.1f} | "
            f"{s['exponent'][1]:.3g} ({s['exponent'][0]:.3g} to {s['exponent'][2]:.3g}) |"
            for name, s in found.items()
        ),
    ]  # fmt: skip


LATE = """## Late reports

Digits, FedBuff with ten reports a commit and forty devices at work (reports are {staleness:.1f} versions late on average), {fleets} development fleets (IID, Dirichlet .5 and
.1), 100 commits: mean error in points if a report that is tau versions late counts (1 + tau)^-d. FedBuff's own rule is d = 0.5, and that is what
`fedfleet predict` takes.

| d | last model | at a quarter and at half of the run |
| --- | --- | --- |
"""


def late(found: dict[str, Any]) -> str:
    """The table of how much late reports count."""
    rows = [f"| {row['d']:g} | {100 * row['end']:.1f} | {100 * row['early']:.1f} |\n" for row in found["rows"]]
    return LATE.format(**found) + "".join(rows)


def page_of(record: dict[str, Any]) -> str:
    """The page of all splits that were tried, from studies/predict.json."""
    tried = [split for split in SPLITS if split in record]
    pages = [markdown(split, record[split]["summaries"], record[split]["worst"]) for split in tried]
    return "\n".join([INTRODUCTION, *pages, *([late(record["late"])] if "late" in record else [])])


def publish(split: str, found: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Keep what a split says beside this program, and write the page."""
    record = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    record[split] = {"summaries": found, "worst": failing(rows)}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    RECORD.with_suffix(".md").write_text(page_of(record))


def band_of(rows: Sequence[dict[str, Any]], split: str) -> dict[str, Any]:
    """How far nine of ten runs lay below and above what was predicted, by progress, as a share of all that can be learnt."""
    progress, error = list[float](), list[float]()
    for row in rows:
        whole = max(row["ideal"] - row["untrained"], 1e-9)
        progress += [(p - row["untrained"]) / whole for p in row["predicted_at"]]
        error += [(t - p) / whole for p, t in zip(row["predicted_at"], row["trained_at"], strict=True)]
    at, off = np.array(progress), np.array(error)
    found: dict[str, list[float]] = {"progress": [], "below": [], "above": []}
    for low, high in itertools.pairwise(PLACES):
        some = off[(at >= low) & ((at < high) | (high == PLACES[-1]))]
        if len(some) >= 8:
            found["progress"].append(round(0.5 * (low + high), 4))
            found["below"].append(round(max(float(-np.percentile(some, TAIL)), 0.0), 4))
            found["above"].append(round(max(float(np.percentile(some, 100 - TAIL)), 0.0), 4))
    tasks = " and ".join(dict.fromkeys(row["task"] for row in rows))
    said = f"errors at four moments of {len(rows)} {split} fleets ({tasks}), none of which the method is judged on"
    return {**found, "said": said, "made": f"python -m studies.predict --split {split} --band FILE"}
