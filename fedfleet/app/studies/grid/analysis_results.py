"""What the runs of a study say: a row for every arm, and the analyses that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fedfleet.app.spec.spec_record import TABLES
from fedfleet.app.studies.compare.records import Arm as ComparedArm
from fedfleet.app.studies.compare.verdict import verdict
from fedfleet.app.studies.grid.analyses import Analysis
from fedfleet.app.studies.grid.quantities import FLEET, Aims, aimed_at, arms_of, number, quantity, reached
from fedfleet.app.studies.grid.run_cache import Ran
from fedfleet.app.studies.grid.study_file import Study
from fedfleet.core.errors import BadInput
from fedfleet.measure.statistics.clusters import mean_over, paired_over
from fedfleet.measure.statistics.correlation import Correlation, correlation
from fedfleet.measure.statistics.paired_tests import holm
from fedfleet.measure.statistics.survival import kaplan_meier, median_time, restricted_mean

Row = dict[str, Any]
# The means of every row; shares lie between 0 and 1, everything else is not negative.
_SHARES = ("accuracy", "best_accuracy")
MEANS = ("accuracy", "accuracy_at_equal_time", "virtual_seconds", "bytes_up", "bytes_down", "commits")


def rows_of(study: Study, cells: Sequence[Ran], aims: Aims) -> list[Row]:
    """A row for every arm, in the order of the file.

    `accuracy` and the like are means over the arm's runs with sd and 95 % interval; `time_to_target` knows runs that never got
    there; `against` is the paired comparison with the baseline on common seeds, p corrected by Holm.
    """
    groups = arms_of(cells)
    settings = {arm.name: dict(arm.settings) for arm in study.arms}
    rows = [_row(name, settings[name], mine, aims) for name, mine in groups.items()]
    if study.baseline is not None:
        tested = {pair["arm"]: pair for pair in _pairs(groups, "accuracy", study.baseline, aims, "baseline")}
        for row in rows:
            row["against"] = tested.get(row["arm"])
    return rows


def conclusion(cells: Sequence[Ran]) -> str:
    """The verdict in one sentence, what failed in another. An arm of which runs made no model wins nothing; one that ended in order
    and never made any is beaten."""
    arms = [
        ComparedArm(name, {}, tuple(ran.run for ran in mine if ran.good and ran.run), sum(not ran.good for ran in mine))
        for name, mine in arms_of(cells).items()
        if any(ran.run for ran in mine)
    ]
    said = [verdict(arms).sentence] if any(arm.runs for arm in arms) else []
    failed = sum(not ran.good for ran in cells)
    if failed:
        most = _most_common([ran.reason for ran in cells if ran.reason])
        left = ", and the differences are among the others" if said else ""
        said.append(f"{failed} of {len(cells)} runs made no model{left}; most often: {most}.")
    return " ".join(said)


def analysed(study: Study, cells: Sequence[Ran], aims: Aims) -> list[dict[str, Any]]:
    """An answer for every [[analysis]] of the file."""
    kinds = {
        "table": _table,
        "time_to_accuracy": _times,
        "paired_test": _test,
        "pearson": _together,
        "spearman": _together,
    }
    found: list[dict[str, Any]] = []
    for i, asked in enumerate(study.analyses):
        body = kinds[asked.kind](asked, cells, aims, study, f"analysis[{i}]")
        found.append({"kind": asked.kind, "title": asked.title or _titled(asked), **body})
    return found


def check_askable(study: Study, cells: Sequence[Ran], aims: Aims) -> None:
    """Refuse analyses that no run could answer, before the first one starts: `cells` have not been run yet."""
    for i, asked in enumerate(study.analyses):
        where, s = f"analysis[{i}]", asked.settings
        for key in ("x", "y", "metric", "columns"):
            for name in s.get(key, ()) if key == "columns" else filter(None, [s.get(key)]):
                if not _measured(name):
                    found = [number(ran, name, aims, f"{where}.{key}") for ran in cells]
                    if all(value is None for value in found):
                        raise BadInput(
                            f"{where}.{key}: no spec of this study has the key {name!r}, or none as a number"
                        )
        for name in (s.get("rows"), s.get("across"), s.get("cluster")):
            if name is not None and not _measured(name) and all(quantity(ran, name, aims) is None for ran in cells):
                raise BadInput(f"{where}: no spec of this study has the key {name!r}")


def _measured(name: str) -> bool:
    """Is this quantity known only when a run has ended?"""
    return name.partition(".")[0] not in (*TABLES, "seeds", "measure", "arm")


# ---- rows -----------------------------------------------------------------------------------------------------------


def _row(name: str, settings: dict[str, Any], mine: Sequence[Ran], aims: Aims) -> Row:
    reasons: dict[str, int] = {}
    for ran in mine:
        if ran.reason is not None:
            reasons[ran.reason] = reasons.get(ran.reason, 0) + 1
    return {
        "arm": name,
        "settings": settings,
        "runs": len(mine),
        "failed": sum(reasons.values()),
        "reasons": reasons,
        **{key: summarised(mine, key, aims, "rows") for key in MEANS},
        "time_to_target": None if aims.target is None else timed(mine, aims.target, aims.equal_time),
    }


def summarised(mine: Sequence[Ran], name: str, aims: Aims, where: str) -> dict[str, Any] | None:
    """Mean, sd and 95 % interval of a quantity over the runs that have it; None if none has."""
    known = [(value, ran.cell.drawn) for ran in mine if (value := number(ran, name, aims, where)) is not None]
    if not known:
        return None
    values, drawn = [value for value, _ in known], [draws for _, draws in known]
    least = 0.0 if min(values) >= 0 else -float("inf")
    most = 1.0 if name.startswith(_SHARES) and max(values) <= 1 else float("inf")
    return asdict(mean_over(values, drawn, least=least, most=most))


def timed(mine: Sequence[Ran], target: float, horizon: float | None) -> dict[str, Any] | None:
    """How long an arm's runs took to the target: Kaplan and Meier's median (None: fewer than half got there), and the mean of
    whichever comes first, the target or the horizon that all runs lasted."""
    seen = [r for ran in mine if (r := reached(ran, target)) is not None]
    if not seen:
        return None
    times, there = [r.seconds for r in seen], [r.reached for r in seen]
    watched = horizon is not None and horizon > 0 and all(r.reached or r.seconds >= horizon for r in seen)
    mean = asdict(restricted_mean(times, there, horizon)) if watched and horizon else None
    return {
        "target": target,
        "median": median_time(times, there),
        "restricted_mean": mean,
        "horizon": horizon,
        "reached": sum(there),
        "never": len(mine) - sum(there),
    }


# ---- analyses -------------------------------------------------------------------------------------------------------


def _table(asked: Analysis, cells: Sequence[Ran], aims: Aims, study: Study, where: str) -> dict[str, Any]:
    del study
    columns, rows, across = asked.settings["columns"], asked.settings["rows"], asked.settings["across"]
    groups: dict[str, tuple[Any, list[Ran]]] = {}
    for ran in cells:
        value = quantity(ran, rows, aims)
        groups.setdefault(repr(value), (value, []))[1].append(ran)
    if across is None:
        cases = [
            {rows: value, **{c: summarised(mine, c, aims, where) for c in columns}} for value, mine in groups.values()
        ]
        return {"rows": rows, "columns": list(columns), "table": cases}
    sides = list({repr(v): v for ran in cells for v in [quantity(ran, across, aims)]}.values())
    cases = [
        {
            rows: value,
            "cells": [
                summarised([r for r in mine if quantity(r, across, aims) == side], columns[0], aims, where)
                for side in sides
            ],
        }
        for value, mine in groups.values()
    ]
    return {"rows": rows, "across": across, "value": columns[0], "columns": sides, "table": cases}


def _together(asked: Analysis, cells: Sequence[Ran], aims: Aims, study: Study, where: str) -> dict[str, Any]:
    del study
    x, y, cluster = asked.settings["x"], asked.settings["y"], asked.settings["cluster"]
    points: list[tuple[float, float, Ran]] = []
    for ran in cells:
        a, b = number(ran, x, aims, f"{where}.x"), number(ran, y, aims, f"{where}.y")
        if a is not None and b is not None:
            points.append((a, b, ran))
    if (
        not points
    ):  # every run failed, or none got that far: the answer is that there is none, and the tables are written
        none = asdict(Correlation(None, None, None, 0, 0, "pearson" if asked.kind == "pearson" else "spearman"))
        return {"x": x, "y": y, "cluster": cluster, **none, "missing": len(cells), "points": []}
    if cluster is None and 1 < len({ran.cell.spec.fleet_seed for _, _, ran in points}) < len(points):
        cluster = FLEET  # runs on one fleet resemble each other; where all are on one, they tell of that one
    groups = None if cluster is None else [repr(quantity(ran, cluster, aims)) for _, _, ran in points]
    xs, ys = [a for a, _, _ in points], [b for _, b, _ in points]
    method = "pearson" if asked.kind == "pearson" else "spearman"
    found = correlation(xs, ys, method=method, clusters=groups)
    pairs = [{"x": a, "y": b, "arm": ran.cell.arm, "seed": ran.cell.seed} for a, b, ran in points]
    return {"x": x, "y": y, "cluster": cluster, **asdict(found), "missing": len(cells) - len(points), "points": pairs}


def _times(asked: Analysis, cells: Sequence[Ran], aims: Aims, study: Study, where: str) -> dict[str, Any]:
    del where
    wanted = asked.settings["target"]
    target = aims.target if wanted is None else aimed_at(wanted, cells, study.baseline)
    if target is None:  # it was to be a share of what an arm had, and that has nothing
        return {"target": None, "table": []}
    body: list[Row] = []
    for name, mine in arms_of(cells).items():
        seen = [r for ran in mine if (r := reached(ran, target)) is not None]
        steps = kaplan_meier([r.seconds for r in seen], [r.reached for r in seen]) if seen else []
        found = timed(mine, target, aims.equal_time) or {}
        body.append({"arm": name, **found, "steps": [[s.seconds, s.waiting] for s in steps]})
    return {"target": target, "table": body}


def _test(asked: Analysis, cells: Sequence[Ran], aims: Aims, study: Study, where: str) -> dict[str, Any]:
    baseline = asked.settings["baseline"] or study.baseline or ""
    metric = asked.settings["metric"]
    return {"metric": metric, "baseline": baseline, "table": _pairs(arms_of(cells), metric, baseline, aims, where)}


def _pairs(groups: dict[str, list[Ran]], metric: str, baseline: str, aims: Aims, where: str) -> list[Row]:
    """Every other arm against the baseline, run by run of common seeds; p also corrected for how many arms there are."""
    values = {
        name: {ran.cell.pairing: v for ran in mine if (v := number(ran, metric, aims, where)) is not None}
        for name, mine in groups.items()
    }
    others = [name for name in groups if name != baseline]
    drawn = {ran.cell.pairing: ran.cell.drawn for mine in groups.values() for ran in mine}
    tested = min((ran.run.tested for mine in groups.values() for ran in mine if ran.run and ran.run.tested), default=0)
    sample = 1 / tested if tested and metric in ("accuracy", "best_accuracy", "accuracy_at_equal_time") else 0.0
    found = [paired_over(values[name], values[baseline], drawn, grain=sample) for name in others]
    corrected = holm([None if one is None else one.p for one in found])
    empty = {"difference": None, "low": None, "high": None, "p": None, "n": 0, "unit": "seeds"}
    return [
        {"arm": name, "baseline": baseline, **(asdict(one) if one else empty), "p_holm": p}
        for name, one, p in zip(others, found, corrected, strict=True)
    ]


def _titled(asked: Analysis) -> str:
    s = asked.settings
    match asked.kind:
        case "table":
            return f"{', '.join(s['columns'])} by {s['rows']}" + (f" and {s['across']}" if s["across"] else "")
        case "pearson" | "spearman":
            return f"{s['x']} against {s['y']}, {asked.kind.capitalize()}'s correlation"
        case "time_to_accuracy":
            return "virtual time until an accuracy is reached"
        case "paired_test":
            return f"{s['metric']} against the baseline on common seeds"


def _most_common(reasons: Sequence[str]) -> str:
    return max(reasons, key=lambda why: (reasons.count(why), why)).rstrip(".")
