"""The page of a study: its conclusion, its arms with their uncertainty, how they learnt, the analyses, every run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from fedfleet.app.pages.html import keep_page, page, tight, topline
from fedfleet.app.pages.report_page import write_report
from fedfleet.app.pages.sides.analysis_sections import analysis, difference, mean
from fedfleet.app.pages.sides.arms_as_sides import grouped, sides_of
from fedfleet.app.pages.sides.comparison_checks import commands_for, how_to_check
from fedfleet.app.pages.sides.comparison_words import capital, chance, count, points, time, times
from fedfleet.app.pages.sides.curves import accuracy_figure
from fedfleet.app.pages.sides.run_looks import REPORT, Side, look
from fedfleet.app.pages.sides.run_rows import Head, html_table, runs_table, seed_links, time_to
from fedfleet.app.pages.sides.side_hardness import how_hard
from fedfleet.app.pages.sides.side_participation import who_took_part
from fedfleet.app.pages.sides.side_times import what_it_cost, where_time_went
from fedfleet.app.pages.sides.standings import standings_figure
from fedfleet.app.pages.sides.verdicts import Judged, caveat, headline, lead, verdict_list
from fedfleet.app.runs import finished
from fedfleet.app.studies.compare.arms import arm_names
from fedfleet.app.studies.compare.records import Arm
from fedfleet.app.studies.compare.run_data import read_run
from fedfleet.app.studies.compare.verdict import verdict
from fedfleet.app.studies.grid.analysis_results import MEANS
from fedfleet.app.studies.grid.run_cache import RUNS
from fedfleet.app.studies.grid.run_study import Studied
from fedfleet.app.terminal.text import listed
from fedfleet.core.errors import BadInput, FedFleetError
from fedfleet.store.seals import SEAL

STUDY = "study.json"
EXPORTS = ("results.csv", "results.md", "results.tex", "results.parquet", "runs.csv", STUDY)
_NEEDED = ("name", "rows", "runs", "analyses", "target", "baseline", "equal_time_seconds", "verdict")
_OF_A_RUN, _OF_A_ROW = ("arm", "seed", "folder", "digest", "reason"), ("arm", "settings", "runs", *MEANS)
_EXPLAINED = 60  # runs whose time is explained
_NAMED = 4  # arms without a model that the conclusion names


def write_study(studied: Studied) -> Path:
    """Write report.html into the folder of a study, and the reports of its runs where they are missing."""
    return report_study(studied.out)


def report_study(folder: Path) -> Path:
    """The same from the folder alone, which holds study.json and the runs."""
    found, path = _read(folder), folder / REPORT
    _write_reports(folder, found["runs"])
    keep_page(path, study_page(found, path))
    return path


def told_study(folder: Path, path: Path) -> dict[str, Any]:
    """What `fedfleet report STUDY` answers: the study's own JSON, and where its page is."""
    return {**_read(folder), "report": str(path), "out": str(folder)}


def _read(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / STUDY).read_text(encoding="utf-8"))
        missing = [key for key in _NEEDED if key not in found] or _lacking(found)
    except (OSError, ValueError, TypeError) as wrong:
        raise BadInput(f"{folder / STUDY} cannot be read ({wrong}); run the study again") from None
    if missing:
        raise BadInput(f"{folder / STUDY} cannot be read (it has no {missing[0]!r}); run the study again")
    return found


def _lacking(found: Mapping[str, Any]) -> list[str]:
    """What its lists should hold and do not: somebody else wrote the file, or changed it."""
    lists = {"runs": _OF_A_RUN, "rows": _OF_A_ROW, "analyses": ("kind", "title")}
    odd = [
        f"{name}[{i}].{key}"
        for name, keys in lists.items()
        for i, one in enumerate(found[name])
        for key in keys
        if key not in one
    ]
    elsewhere = [] if odd else [run["folder"] for run in found["runs"] if Path(run["folder"]).parent != Path(RUNS)]
    if elsewhere:
        raise ValueError(f"its run {elsewhere[0]} does not lie in its folder {RUNS}")
    return odd


def _write_reports(folder: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    """Every finished run gets the report that its row leads to."""
    for run in runs:
        out = folder / run["folder"]
        if not run["reason"] and (out / SEAL).is_file() and not (out / REPORT).is_file():
            write_report(finished(out))


def study_page(found: Mapping[str, Any], path: Path) -> str:
    """The page; `path` is where it will lie, beside the runs."""
    found = _in_words(found)
    arms, sides, judged = _judged(found, path)
    failed = [run for run in found["runs"] if run["reason"]]
    name, seeds = str(found["name"]), len({run["seed"] for run in found["runs"]})
    title = headline(judged) if arms else f"None of {count(len(found['runs']), 'run')} made a model"
    body = [
        f"<h1>{escape(tight(title))}</h1>",
        f'<p class="lead">{escape(tight(lead(judged) if arms else str(found["verdict"])))}</p>',
        *([_without(failed, found["runs"]), verdict_list(judged, sides, found["target"]), caveat(judged)] if arms else []),
        accuracy_figure(sides, target=found["target"]),
        *_equal_time(found, sides),
        f"<h2>{capital(count(len(found['rows']), 'arm'))}, {count(len(found['runs']), 'run')}</h2>",
        arms_table(found, sides),
        *_failures(failed),
        *(["<h2>Analyses</h2>", *(analysis(a, {s.label: s.colour for s in sides} | {s.name: s.colour for s in sides}) for a in found["analyses"])] if found["analyses"] else []),
        *([f"<h2>What each arm was like</h2>{runs_table(sides, target=found['target'])}"] if sides else []),
        who_took_part(sides),
        where_time_went(sides),
        how_hard(sides),
        what_it_cost(sides),
        _exports(path.parent),
        how_to_check([str(r["arm"]) for r in found["rows"]], _settings(found["rows"]),
                     [(f"{r['arm']}, seed {r['seed']}", str(r["digest"])) for r in found["runs"] if r["digest"]],
                     commands_for([path.parent / r["folder"] for r in found["runs"]])),
    ]  # fmt: skip
    top = topline(f"study {name}: {count(len(found['rows']), 'arm')}, {count(seeds, 'seed')}", [])
    return page(f"FedFleet study: {name}", body, top=top, description=str(found["verdict"]))


def _in_words(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same with arms of a grid called by the ends of their keys: lr 0.1, seconds 20. Files keep the names of the study."""
    rows = [row for row in found["rows"] if "=" in str(row["arm"])]
    names = arm_names([row["settings"] for row in rows]) if len(rows) == len(found["rows"]) > 1 else []
    words = {str(row["arm"]): name for row, name in zip(rows, names, strict=False)}

    def told(value: Any) -> Any:
        match value:
            case str():
                return words.get(value, value)
            case list():
                return [told(inner) for inner in value]
            case dict():
                return {key: told(inner) for key, inner in value.items()}
            case _:
                return value

    return told(dict(found)) if len(set(words.values())) == len(found["rows"]) else found


def _judged(found: Mapping[str, Any], path: Path) -> tuple[list[Arm], list[Side], Judged]:
    """The arms that made models, as sides of the page, and the verdict on each group of them."""
    there = [run for run in found["runs"] if not run["reason"]]
    arms = list[Arm]()
    looks = dict[Path, Any]()
    for row in found["rows"]:
        mine = [path.parent / run["folder"] for run in there if run["arm"] == row["arm"]]
        runs = list[Any]()
        for out in mine:
            try:
                runs.append(read_run(out, out.name))
                looks[out] = look(out, path, explained=len(there) <= _EXPLAINED)
            except FedFleetError:
                continue  # taken away since; its row in the table stays
        if runs:
            arms.append(Arm(str(row["arm"]), row["settings"], tuple(runs), int(row["runs"]) - len(mine)))
    if not arms:
        return [], [], {}
    groups = grouped(arms)
    judged: Judged = {group: (mine, verdict(mine)) for group, mine in groups.items()}
    return arms, sides_of(groups, looks), judged


def arms_table(found: Mapping[str, Any], sides: Sequence[Side]) -> str:
    """Every arm with mean, sd and interval, at the end and at equal time, against the baseline, and its runs."""
    baseline, target, equal = found["baseline"], found["target"], found["equal_time_seconds"]
    by = _by_arm(found, sides)
    heads = [
        Head("arm"),
        Head("accuracy", "Of the last model: the mean over seeds, and its 95 % interval."),
        Head("sd", "Standard deviation over seeds, in points."),
        *([Head(f"after {time(equal)}", "At equal virtual time: when the shortest run had ended.")] if equal else []),
        *([Head(f"against {baseline}", "The paired difference on common seeds, with its 95 % interval."), Head("p, corrected", "Holm's correction for the number of arms.")] if baseline else []),
        *([Head(f"time to {points(target)}", "Median by Kaplan and Meier.")] if target else []),
        Head("runs", "Each seed opens the report of its run.", "words"),
    ]  # fmt: skip
    rows = list[list[str]]()
    for row in found["rows"]:
        side, against = by.get(row["arm"]), row.get("against")
        sd = row["accuracy"]["sd"] if row["accuracy"] else None
        rows.append([
            escape(str(row["arm"])), mean("accuracy", row["accuracy"]), "-" if sd is None else f"{100 * sd:.1f}",
            *([mean("accuracy", row["accuracy_at_equal_time"])] if equal else []),
            *([difference("accuracy", against) if against else "is the baseline", escape(chance(against["p_holm"])) if against else ""] if baseline else []),
            *([escape(time_to(side.looks, target)) if side else "-"] if target else []),
            (seed_links(side.looks) if side else "none") + (f" ({row['failed']} of {row['runs']} failed)" if row["failed"] else ""),
        ])  # fmt: skip
    return html_table(heads, rows)


def _by_arm(found: Mapping[str, Any], sides: Sequence[Side]) -> dict[str, Side]:
    """The side of each arm: sides have other names where arms are grouped, but the same runs."""
    home = {Path(run["folder"]).name: str(run["arm"]) for run in found["runs"]}
    return {home[side.looks[0].out.name]: side for side in sides}


def _equal_time(found: Mapping[str, Any], sides: Sequence[Side]) -> list[str]:
    then = found["equal_time_seconds"]
    if not then or not sides:
        return []
    ends = [one.end for side in sides for one in side.looks]
    alike = max(ends) <= 1.05 * then
    title = "Accuracy of the last models" if alike else f"Accuracy at equal virtual time: after {time(then)}"
    how = "A small dot is a seed, the large one their mean." + (
        "" if alike else f" The runs ended after {times(ends)}."
    )
    return [standings_figure(sides, title, how, at=None if alike else float(then))]


def _without(failed: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> str:
    """What a conclusion that speaks of the others must not keep to itself."""
    if not failed:
        return ""
    arms = list(dict.fromkeys(str(run["arm"]) for run in failed))
    said = f"{len(failed)} of {count(len(runs), 'run')}, of {listed(arms, _NAMED)}; the reasons are below the table."
    return f'<p class="aside"><b>Without a model:</b> {escape(said)}</p>'


def _failures(failed: Sequence[Mapping[str, Any]]) -> list[str]:
    if not failed:
        return []
    by: dict[tuple[str, str], list[str]] = {}
    for run in failed:
        by.setdefault((str(run["arm"]), str(run["reason"])), []).append(str(run["seed"]))
    rows = [[escape(arm), escape(", ".join(seeds)), escape(reason)] for (arm, reason), seeds in by.items()]
    return ["<h3>Runs that failed</h3>", html_table([Head("arm"), Head("seeds"), Head("reason", kind="words")], rows)]


def _exports(folder: Path) -> str:
    there = [name for name in EXPORTS if (folder / name).is_file()]
    links = ", ".join(f'<a href="{name}">{name}</a>' for name in there)
    return f"<h2>The figures as files</h2><p>{links}</p>" if there else ""


def _settings(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    keys = dict.fromkeys(key for row in rows for key in row["settings"])
    return {key: [row["settings"].get(key) for row in rows] for key in keys}
