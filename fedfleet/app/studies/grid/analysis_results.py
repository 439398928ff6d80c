"""What the runs of a study say: a row for every arm, and the analyses that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fedfleet.app.spec.spec_record import TABLES
from fedfleet.app.studies.compare.criteria import has_model
from fedfleet.app.studies.compare.records import Arm as ComparedArm
from fedfleet.app.studies.compare.records import Verdict
from fedfleet.app.studies.compare.verdict import verdict
from fedfleet.app.studies.grid.analyses import Analysis
from fedfleet.app.studies.grid.quantities import FLEET, Aims, arms_of, number, quantity, resolve_target, time_to_reach
from fedfleet.app.studies.grid.study_file import Study
from fedfleet.app.studies.grid.study_runs import StudyRun
from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.kinds import KINDS
from fedfleet.measure.goal import Target
from fedfleet.measure.score_info import ScoreInfo
from fedfleet.measure.statistics.blocked_design import all_against_baseline
from fedfleet.measure.statistics.correlation import Correlation, correlation
from fedfleet.measure.statistics.looks import level_of_look
from fedfleet.measure.statistics.paired_tests import mean_over
from fedfleet.measure.statistics.survival import kaplan_meier, median_time, restricted_mean

Row = dict[str, Any]
# The means of every row; shares lie between 0 and 1, everything else is not negative.
_SHARES = ("accuracy", "best_accuracy")
ACCURACIES = (*_SHARES, "accuracy_at_equal_time")  # of which one sample of the test set is the grain
MEANS = ("accuracy", "accuracy_at_equal_time", "virtual_seconds", "bytes_up", "bytes_down", "commits")


def arm_rows(study: Study, cells: Sequence[StudyRun], aims: Aims) -> list[Row]:
    """A row for every arm, in the order of the file.

    `accuracy` and the like are means over the arm's runs with sd and 95 % interval, where a run without a model counts with its
    first weights; `time_to_target` knows runs that never got there; `against` and `against_at_equal_time` are the differences to
    the baseline on common seeds at the two moments, by Dunnett's test.
    """
    groups = arms_of(cells)
    settings = {arm.name: dict(arm.settings) for arm in study.arms}
    rows = [_row(name, settings[name], runs, aims) for name, runs in groups.items()]
    if study.baseline is not None:
        for key, metric in (("against", "accuracy"), ("against_at_equal_time", "accuracy_at_equal_time")):
            tested = {pair["arm"]: pair for pair in _pairs(groups, metric, study.baseline, aims, "baseline")}
            for row in rows:
                row[key] = tested.get(row["arm"])
        for name in aims.shown:
            tested = {pair["arm"]: pair for pair in _pairs(groups, name, study.baseline, aims, "baseline")}
            for row in rows:
                row.setdefault("measures_against", {})[name] = tested.get(row["arm"])
    return rows


def study_verdict(study: Study, cells: Sequence[StudyRun], aims: Aims) -> Verdict | None:
    """The verdict on the arms by the aim of the study; None if no run ended."""
    arms = [
        ComparedArm(name, {}, tuple(ran.run for ran in runs if ran.run), sum(ran.run is None for ran in runs))
        for name, runs in arms_of(cells).items()
        if any(ran.run for ran in runs)
    ]
    if not arms:
        return None
    return verdict(arms, aim=study.aim, target=aims.target, baseline=study.baseline, look=aims.look)


def conclusion(found: Verdict | None, cells: Sequence[StudyRun]) -> str:
    """The verdict, and what failed in another sentence."""
    sentences = [] if found is None else [found.sentence]
    bare = [ran for ran in cells if ran.run is not None and not ran.good]
    lost = [ran for ran in cells if ran.run is None]
    for failed, what in ((bare, "made no model"), (lost, "could not be finished")):
        if failed:
            most = _most_common([ran.reason for ran in failed if ran.reason])
            left = " and are not in the comparison" if failed is lost and len(lost) < len(cells) else ""
            sentences.append(f"{len(failed)} of {len(cells)} runs {what}{left}; most often: {most}.")
    return " ".join(sentences)


def run_analyses(study: Study, cells: Sequence[StudyRun], aims: Aims) -> list[dict[str, Any]]:
    """An answer for every [[analysis]] of the file."""
    kinds = {
        "table": _table,
        "time_to_accuracy": _times_to_accuracy,
        "paired_test": _paired_tests,
        "pearson": _correlation,
        "spearman": _correlation,
    }
    result: list[dict[str, Any]] = []
    for i, analysis in enumerate(study.analyses):
        body = kinds[analysis.kind](analysis, cells, aims, study, f"analysis[{i}]")
        result.append({"kind": analysis.kind, "title": analysis.title or _default_title(analysis, aims.score), **body})
    return result


def check_analyses(study: Study, cells: Sequence[StudyRun], aims: Aims) -> None:
    """Refuse analyses that no run could answer, before the first one starts: `cells` have not been run yet."""
    task_measures = _task_measures(cells)
    for i, analysis in enumerate(study.analyses):
        where, s = f"analysis[{i}]", analysis.settings
        for key in ("x", "y", "metric", "columns"):
            for name in s.get(key, ()) if key == "columns" else filter(None, [s.get(key)]):
                first, _, rest = name.partition(".")
                if first == "measures" and rest not in task_measures:
                    raise BadInput(
                        f"{where}.{key} = {name!r}: no task of this study has the measure {rest!r}"
                        f"{suggest_name(rest, task_measures)}"
                    )
                if not _is_run_measure(name):
                    result = [number(study_run, name, aims, f"{where}.{key}") for study_run in cells]
                    if all(value is None for value in result):
                        raise BadInput(f"{where}.{key}: no spec of this study has the key {name!r} with a number")
        for name in (s.get("rows"), s.get("across"), s.get("cluster")):
            if name is not None and not _is_run_measure(name) and all(quantity(ran, name, aims) is None for ran in cells):
                raise BadInput(f"{where}: no spec of this study has the key {name!r}")


def _task_measures(cells: Sequence[StudyRun]) -> list[str]:
    """What is measured beside the score: a person's own metrics and those of the kind of task; of tasks that a spec names, whose
    kind shows when they are made, those of any kind."""
    tasks = [study_run.cell.own.task for study_run in cells if study_run.cell.own is not None]
    kinds = [task.dataset.kind for task in tasks] if len(tasks) == len(cells) else KINDS.values()
    own = [name for task in tasks for name in task.metrics]
    return sorted({*own, *(name for kind in kinds for name in kind.measures)})


def _is_run_measure(name: str) -> bool:
    """Is this quantity known only when a run has ended?"""
    return name.partition(".")[0] not in (*TABLES, "seeds", "measure", "arm")


# ---- rows -----------------------------------------------------------------------------------------------------------


def _row(name: str, settings: dict[str, Any], runs: Sequence[StudyRun], aims: Aims) -> Row:
    reasons: dict[str, int] = {}
    for study_run in runs:
        if study_run.reason is not None:
            reasons[study_run.reason] = reasons.get(study_run.reason, 0) + 1
    return {
        "arm": name,
        "settings": settings,
        "runs": len(runs),
        "failed": sum(reasons.values()),
        "reasons": reasons,
        **{key: summarise(runs, key, aims, "rows") for key in MEANS},
        **({"measures": {name: summarise(runs, name, aims, "rows") for name in aims.shown}} if aims.shown else {}),
        "time_to_target": None if aims.target is None else target_times(runs, aims.target, aims.equal_time),
    }


def summarise(runs: Sequence[StudyRun], name: str, aims: Aims, where: str) -> dict[str, Any] | None:
    """Mean, sd and 95 % interval of a quantity over the runs that have it; None if none has."""
    known = [(value, study_run.cell.draw_ids) for study_run in runs if (value := number(study_run, name, aims, where)) is not None]
    if not known:
        return None
    values, draw_list = [value for value, _ in known], [draws for _, draws in known]
    bounded = min(values) >= 0 and (aims.score.kind.percent or "accuracy" not in name)
    least = 0.0 if bounded else -float("inf")
    most = 1.0 if name.startswith(_SHARES) and max(values) <= 1 else float("inf")
    return asdict(mean_over(values, draw_list, least=least, most=most))


def target_times(runs: Sequence[StudyRun], target: Target, horizon: float | None) -> dict[str, Any] | None:
    """How long an arm's runs took to the target: Kaplan and Meier's median (None: fewer than half got there), and the mean of
    whichever comes first, the target or the horizon that all runs lasted."""
    results = [r for study_run in runs if (r := time_to_reach(study_run, target)) is not None]
    if not results:
        return None
    times, is_reached = [r.seconds for r in results], [r.reached for r in results]
    watched = horizon is not None and horizon > 0 and all(r.reached or r.seconds >= horizon for r in results)
    mean = asdict(restricted_mean(times, is_reached, horizon)) if watched and horizon else None
    return {
        "target": target,
        "median": median_time(times, is_reached),
        "restricted_mean": mean,
        "horizon": horizon,
        "reached": sum(is_reached),
        "never": len(runs) - sum(is_reached),
    }


# ---- analyses -------------------------------------------------------------------------------------------------------


def _table(analysis: Analysis, cells: Sequence[StudyRun], aims: Aims, study: Study, where: str) -> dict[str, Any]:
    del study
    columns, rows, across = analysis.settings["columns"], analysis.settings["rows"], analysis.settings["across"]
    groups: dict[str, tuple[Any, list[StudyRun]]] = {}
    for study_run in cells:
        value = quantity(study_run, rows, aims)
        groups.setdefault(repr(value), (value, []))[1].append(study_run)
    if across is None:
        cases = [{rows: value, **{c: summarise(mine, c, aims, where) for c in columns}} for value, mine in groups.values()]
        return {"rows": rows, "columns": list(columns), "table": cases}
    sides = list({repr(v): v for ran in cells for v in [quantity(ran, across, aims)]}.values())
    cases = [
        {
            rows: value,
            "cells": [summarise([r for r in runs if quantity(r, across, aims) == side], columns[0], aims, where) for side in sides],
        }
        for value, runs in groups.values()
    ]
    return {"rows": rows, "across": across, "value": columns[0], "columns": sides, "table": cases}


def _correlation(analysis: Analysis, cells: Sequence[StudyRun], aims: Aims, study: Study, where: str) -> dict[str, Any]:
    del study
    x, y, cluster = analysis.settings["x"], analysis.settings["y"], analysis.settings["cluster"]
    points: list[tuple[float, float, StudyRun]] = []
    for study_run in cells:
        a, b = number(study_run, x, aims, f"{where}.x"), number(study_run, y, aims, f"{where}.y")
        if a is not None and b is not None:
            points.append((a, b, study_run))
    if not points:  # every run failed, or none got that far: the answer is that there is none, and the tables are written
        none = asdict(Correlation(None, None, None, 0, 0, "pearson" if analysis.kind == "pearson" else "spearman"))
        return {"x": x, "y": y, "cluster": cluster, **none, "missing": len(cells), "points": []}
    if cluster is None and 1 < len({ran.cell.spec.fleet_seed for _, _, ran in points}) < len(points):
        cluster = FLEET  # runs on one fleet resemble each other; where all are on one, they describe that one
    groups = None if cluster is None else [repr(quantity(ran, cluster, aims)) for _, _, ran in points]
    xs, ys = [a for a, _, _ in points], [b for _, b, _ in points]
    method = "pearson" if analysis.kind == "pearson" else "spearman"
    result = correlation(xs, ys, method=method, clusters=groups)
    pairs = [{"x": a, "y": b, "arm": ran.cell.arm, "seed": ran.cell.seed} for a, b, ran in points]
    return {"x": x, "y": y, "cluster": cluster, **asdict(result), "missing": len(cells) - len(points), "points": pairs}


def _times_to_accuracy(analysis: Analysis, cells: Sequence[StudyRun], aims: Aims, study: Study, where: str) -> dict[str, Any]:
    del where
    target_setting = analysis.settings["target"]
    target = aims.target if target_setting is None else resolve_target(target_setting, cells, study.baseline)
    if target is None:  # it was to be a share of what an arm had, and that has nothing
        return {"target": None, "table": []}
    body: list[Row] = []
    for name, runs in arms_of(cells).items():
        results = [r for study_run in runs if (r := time_to_reach(study_run, target)) is not None]
        steps = kaplan_meier([r.seconds for r in results], [r.reached for r in results]) if results else []
        result = target_times(runs, target, aims.equal_time) or {}
        body.append({"arm": name, **result, "steps": [[s.seconds, s.waiting] for s in steps]})
    return {"target": target, "table": body}


def _paired_tests(analysis: Analysis, cells: Sequence[StudyRun], aims: Aims, study: Study, where: str) -> dict[str, Any]:
    baseline = analysis.settings["baseline"] or study.baseline or ""
    metric = analysis.settings["metric"]
    return {"metric": metric, "baseline": baseline, "table": _pairs(arms_of(cells), metric, baseline, aims, where)}


def _pairs(groups: dict[str, list[StudyRun]], metric: str, baseline: str, aims: Aims, where: str) -> list[Row]:
    """Every other arm against the baseline on common seeds, as a blocked design; `p_corrected` allows for all arms and for looking
    again.

    `p_holm` is its name before.
    """
    values = {
        name: {ran.cell.pairing: v for ran in mine if (v := number(ran, metric, aims, where)) is not None}
        for name, mine in groups.items()
    }
    others = [name for name in groups if name != baseline]
    draws = {study_run.cell.pairing: study_run.cell.draw_ids for runs in groups.values() for study_run in runs}
    tested = min((ran.run.tested for mine in groups.values() for ran in mine if ran.run and ran.run.tested), default=0)
    sample = 1 / tested if tested and metric in ACCURACIES and aims.score.counts_answers else 0.0
    level = level_of_look(aims.look)
    apart = [
        name for name, mine in groups.items() if metric in ACCURACIES and not all(_has_model(ran, metric, aims) for ran in mine)
    ]
    known = {name: mine for name, mine in values.items() if mine or name == baseline}
    tests = all_against_baseline(baseline, known, draws, grain=sample, level=level, apart=apart) if values[baseline] else {}
    empty = {"difference": None, "low": None, "high": None, "p": None, "n": 0, "unit": "seeds"}
    rows = list[Row]()
    for name in others:
        test = tests.get(name)
        pair = asdict(test.paired) if test and test.paired else empty
        rows.append({"arm": name, "baseline": baseline, **pair, "p_holm": test and test.p, "p_corrected": test and test.p})
    return rows


def _has_model(study_run: StudyRun, metric: str, aims: Aims) -> bool:
    """Whether the run has an accuracy of its own, or is not known."""
    if study_run.run is None:
        return True
    return has_model(study_run.run, aims.equal_time if metric == "accuracy_at_equal_time" else None)


def _default_title(analysis: Analysis, score: ScoreInfo) -> str:
    s = analysis.settings
    match analysis.kind:
        case "table":
            return f"{', '.join(s['columns'])} by {s['rows']}" + (f" and {s['across']}" if s["across"] else "")
        case "pearson" | "spearman":
            return f"{s['x']} against {s['y']}, {analysis.kind.capitalize()}'s correlation"
        case "time_to_accuracy":
            return (
                "virtual time until an accuracy is reached" if score.counts_answers else "virtual time until the target is reached"
            )
        case "paired_test":
            return f"{s['metric']} against the baseline on common seeds"


def _most_common(reasons: Sequence[str]) -> str:
    return max(reasons, key=lambda why: (reasons.count(why), why)).rstrip(".")
