"""The page of a study: its conclusion, its arms with their uncertainty, how they learnt, the analyses, every run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from fedfleet.app.pages.html import topline, write_page
from fedfleet.app.pages.report_page import write_report
from fedfleet.app.pages.sides import sections
from fedfleet.app.pages.sides.analysis_sections import analysis_section, difference_cell, mean_cell
from fedfleet.app.pages.sides.comparison_words import capitalise, count_words, p_value_text, time_text
from fedfleet.app.pages.sides.page_runs import REPORT, Side, group_arms, load_page_run, sides_of
from fedfleet.app.pages.sides.run_rows import Head, html_table, runs_table, seed_links, time_to
from fedfleet.app.pages.sides.sections import PageFacts, commands_for, sections_page
from fedfleet.app.pages.sides.verdicts import GroupVerdicts, caveat, headline, lead, tradeoffs, verdict_list
from fedfleet.app.runs import read_finished_run
from fedfleet.app.studies.compare.aim_names import AIMS
from fedfleet.app.studies.compare.arms import arm_names, quote
from fedfleet.app.studies.compare.criteria import DEFAULT_AIM
from fedfleet.app.studies.compare.records import Arm, Verdict
from fedfleet.app.studies.compare.run_data import read_run
from fedfleet.app.studies.compare.verdict import verdict
from fedfleet.app.studies.grid.analysis_results import MEANS
from fedfleet.app.studies.grid.run_study import Studied
from fedfleet.app.studies.grid.study_runs import RUNS
from fedfleet.app.terminal.text import join_words
from fedfleet.core.errors import BadInput, FedFleetError
from fedfleet.core.json_text import parse_json
from fedfleet.measure.goal import target_text
from fedfleet.measure.measure_info import MEASURE_NAMES, OWN, MeasureInfo, measure_info
from fedfleet.measure.score_info import ScoreInfo, score_info_of
from fedfleet.store.seals import SEAL

STUDY = "study.json"
EXPORTS = ("results.csv", "results.md", "results.tex", "results.parquet", "runs.csv", STUDY)
_REQUIRED_KEYS = ("name", "rows", "runs", "analyses", "target", "baseline", "equal_time_seconds", "verdict")
_RUN_KEYS, _ROW_KEYS = ("arm", "seed", "folder", "digest", "reason"), ("arm", "settings", "runs", *MEANS)
_MAX_EXPLAINED = 60  # runs whose time is explained
_DIFFERENCE = (
    "On common seeds (blocked design, Dunnett's test): 95 % interval and p allow for the number of arms and for looking again."
)
_MAX_NAMED = 4  # arms without a model that the conclusion names


def write_pages(studied: Studied) -> Studied:
    """Write report.html into the folder of a study, and the reports of its runs where they are missing; the study that names it."""
    return replace(studied, page=report_study(studied.out))


def report_study(folder: Path) -> Path:
    """The pages of a study from its folder, which holds study.json and the runs; a run that has a page keeps it."""
    study, path = _read_study(folder), folder / REPORT
    for run in study["runs"]:  # every finished run gets the report that its row leads to
        out = folder / run["folder"]
        if not run["reason"] and (out / SEAL).is_file() and not (out / REPORT).is_file():
            write_report(read_finished_run(out))
    write_page(path, study_page(study, path))
    return path


def study_answer(folder: Path, path: Path) -> dict[str, Any]:
    """What `fedfleet report STUDY` answers: the study's own JSON, and where its page is."""
    return {**_read_study(folder), "report": str(path), "out": str(folder)}


def _read_study(folder: Path) -> dict[str, Any]:
    try:
        study: dict[str, Any] = parse_json((folder / STUDY).read_text(encoding="utf-8"))
        missing = [key for key in _REQUIRED_KEYS if key not in study] or _missing_keys(study)
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(f"{folder / STUDY} cannot be read ({error}); run the study again") from None
    if missing:
        raise BadInput(f"{folder / STUDY} cannot be read (it has no {missing[0]!r}); run the study again")
    return study


def _missing_keys(study: Mapping[str, Any]) -> list[str]:
    """The keys that its lists lack: another program wrote the file, or changed it."""
    lists = {"runs": _RUN_KEYS, "rows": _ROW_KEYS, "analyses": ("kind", "title")}
    rows = ((f"{name}[{i}]", one, keys) for name, keys in lists.items() for i, one in enumerate(study[name]))
    missing = [f"{name}.{key}" for name, one, keys in rows for key in keys if key not in one]
    elsewhere = [] if missing else [run["folder"] for run in study["runs"] if Path(run["folder"]).parent != Path(RUNS)]
    if elsewhere:
        raise ValueError(f"its run {elsewhere[0]} does not lie in its folder {RUNS}")
    return missing


def study_page(study: Mapping[str, Any], path: Path) -> str:
    """The page; `path` is where it will lie, in the folder of the runs."""
    study, score = _with_readable_names(study), score_info_of(study)
    arms, sides, verdicts = _judge_arms(study, path)
    runs, rows, name = study["runs"], study["rows"], str(study["name"])
    failed = [run for run in runs if run["reason"]]
    facts = PageFacts(
        finding=headline(verdicts) if arms else f"None of {count_words(len(runs), 'run')} made a model",
        lead=lead(verdicts) if arms else str(study["verdict"]),
        sides=sides,
        verdicts=tradeoffs(verdicts) + _failed_note(failed, runs) + verdict_list(verdicts, sides, study["target"]) if arms else "",
        caveat=caveat(verdicts) if arms else "",
        target=study["target"],
        equal_time=study["equal_time_seconds"],
        names=[str(row["arm"]) for row in rows],
        differs={key: [row["settings"].get(key) for row in rows] for row in rows for key in row["settings"]},
        digests=[(f"{run['arm']}, seed {run['seed']}", str(run["digest"])) for run in runs if run["digest"]],
        commands=commands_for([path.parent / run["folder"] for run in runs]),
        measures=[] if study.get("aim", DEFAULT_AIM) in AIMS else [str(study["aim"])],
    )
    colours = {side.label: side.colour for side in sides} | {side.name: side.colour for side in sides}
    analyses = [analysis_section(analysis, colours, score) for analysis in study["analyses"]]
    exports = ", ".join(f'<a href="{name}">{name}</a>' for name in EXPORTS if (path.parent / name).is_file())
    page_sections: Sequence[sections.Section] = (
        sections.conclusion,
        sections.accuracy,
        sections.measures,
        sections.equal_time,
        lambda facts: arms_table(study, facts.sides),
        lambda _: _failures(failed),
        lambda _: "<h2>Analyses</h2>" + "".join(analyses) if analyses else "",
        lambda facts: (
            f"<h2>Participation, time and traffic of each arm</h2>{runs_table(sides, target=facts.target)}" if sides else ""
        ),
        *sections.MEASURED,
        lambda _: f"<h2>The figures as files</h2><p>{exports}</p>" if exports else "",
        sections.checks,
    )
    seeds = len({run["seed"] for run in runs})
    top = topline(f"study {name}: {count_words(len(rows), 'arm')}, {count_words(seeds, 'seed')}", [])
    return sections_page(f"FedFleet study: {name}", facts, page_sections, top=top, description=str(study["verdict"]))


def _with_readable_names(study: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same with arms of a grid called by the ends of their keys: lr 0.1, seconds 20. Files keep the names of the study."""
    rows = [row for row in study["rows"] if "=" in str(row["arm"])]
    names = arm_names([row["settings"] for row in rows]) if len(rows) == len(study["rows"]) > 1 else []
    words = {str(row["arm"]): name for row, name in zip(rows, names, strict=False)}

    def translate(value: Any) -> Any:
        match value:
            case str():
                return words.get(value, value)
            case list():
                return [translate(inner) for inner in value]
            case dict():
                return {key: translate(inner) for key, inner in value.items()}
            case _:
                return value

    return translate(dict(study)) if len(set(words.values())) == len(study["rows"]) else study


def _judge_arms(study: Mapping[str, Any], path: Path) -> tuple[list[Arm], list[Side], GroupVerdicts]:
    """The arms that made models, as sides of the page, and the verdict on each group of them."""
    ended = [run for run in study["runs"] if run["digest"]]
    arms = list[Arm]()
    page_runs = dict[Path, Any]()
    for row in study["rows"]:
        folders = [path.parent / run["folder"] for run in ended if run["arm"] == row["arm"]]
        runs = list[Any]()
        for out in folders:
            try:
                runs.append(read_run(out, out.name))
                page_runs[out] = load_page_run(out, path, explained=len(ended) <= _MAX_EXPLAINED)
            except FedFleetError:
                continue  # taken away since; its row in the table stays
        if runs:
            arms.append(Arm(str(row["arm"]), row["settings"], tuple(runs), int(row["runs"]) - len(folders)))
    if not arms:
        return [], [], {}
    groups = group_arms(arms)
    verdicts: GroupVerdicts = {group: (mine, _verdict(study, mine)) for group, mine in groups.items()}
    return arms, sides_of(groups, page_runs), verdicts


def _verdict(study: Mapping[str, Any], arms: Sequence[Arm]) -> Verdict:
    """The verdict by the aim of the study; a baseline that is in another group, or has no runs, is none."""
    baseline = study["baseline"] if any(arm.name == study["baseline"] for arm in arms) else None
    return verdict(arms, aim=study.get("aim", DEFAULT_AIM), target=study["target"], baseline=baseline, look=study.get("look", 1))


def arms_table(study: Mapping[str, Any], sides: Sequence[Side]) -> str:
    """Every arm with mean, sd and interval, at the end and at equal time, against the baseline, and its runs."""
    baseline, target, equal = study["baseline"], study["target"], study["equal_time_seconds"]
    score = score_info_of(study)
    measures = [measure_info(name, score) for name in (study["rows"][0].get("measures") or {})] if study["rows"] else []
    goal = "" if target is None else score.brief(target) if isinstance(target, float) else target_text(target, score)
    # Sides have other names than their arms where these are grouped, but the same runs.
    home = {Path(run["folder"]).name: str(run["arm"]) for run in study["runs"]}
    by = {home[side.runs[0].out.name]: side for side in sides}
    heads = [
        Head("arm"),
        Head(score.name, "Of the last model: the mean over seeds, and its 95 % interval."),
        Head("sd", f"Standard deviation over seeds{', in points' if score.kind.percent else ''}."),
        *([Head(f"after {time_text(equal)}", "At equal virtual time: when the shortest run had ended.")] if equal else []),
        *([Head(f"at the end, against {baseline}", _DIFFERENCE)] if baseline else []),
        *([Head(f"after {time_text(equal)}, against {baseline}", _DIFFERENCE)] if baseline and equal else []),
        *(head for info in measures for head in _measure_heads(info, baseline)),
        *([Head(f"time to {goal}", "Median by Kaplan and Meier.")] if target else []),
        Head("runs", "Each seed opens the report of its run.", "words"),
    ]  # fmt: skip
    rows = list[list[str]]()
    for row in study["rows"]:
        side = by.get(row["arm"])
        sd = row["accuracy"]["sd"] if row["accuracy"] else None
        rows.append([
            escape(str(row["arm"])), mean_cell("accuracy", row["accuracy"], score), "-" if sd is None else f"{100 * sd:.1f}" if score.kind.percent else score.text(sd),
            *([mean_cell("accuracy", row["accuracy_at_equal_time"], score)] if equal else []),
            *([_against_cell(row, row.get("against"), baseline, "accuracy", score)] if baseline else []),
            *([_against_cell(row, row.get("against_at_equal_time"), baseline, "accuracy", score)] if baseline and equal else []),
            *(cell for info in measures for cell in _measure_cells(row, info, baseline, score)),
            *([escape(time_to(side.runs, target)) if side else "-"] if target else []),
            (seed_links(side.runs) if side else "none") + (f" ({row['failed']} of {row['runs']} failed)" if row["failed"] else ""),
        ])  # fmt: skip
    title = f"{count_words(len(study['rows']), 'arm')}, {count_words(len(study['runs']), 'run')}"
    return f"<h2>{capitalise(title)}</h2>{html_table(heads, rows)}"


def _measure_heads(info: MeasureInfo, baseline: str | None) -> list[Head]:
    """The heads of a measure beside the score."""
    better = "less is better" if info.lower else "more is better"
    head = Head(info.label, f"Of the last model ({better}): the mean over seeds, and its 95 % interval.")
    return [head, *([Head(f"{info.label}, against {baseline}", _DIFFERENCE)] if baseline else [])]


def _measure_cells(row: Mapping[str, Any], info: MeasureInfo, baseline: str | None, score: ScoreInfo) -> list[str]:
    name = info.name if info.name in MEASURE_NAMES else f"{OWN}{info.name.removeprefix(OWN)}"
    mean = mean_cell(name, (row.get("measures") or {}).get(info.name), score)
    pair = (row.get("measures_against") or {}).get(info.name)
    return [mean, *([_against_cell(row, pair, baseline, name, score)] if baseline else [])]


def _against_cell(row: Mapping[str, Any], pair: Mapping[str, Any] | None, baseline: str, name: str, score: ScoreInfo) -> str:
    """The difference to the baseline with its interval and p."""
    if pair is None:
        return "is the baseline" if row["arm"] == baseline else "-"
    p = f' <span class="soft line">p {escape(p_value_text(pair["p_holm"]))}</span>' if pair["p_holm"] is not None else ""
    return f"{difference_cell(name, pair, score)}{p}"


def _failed_note(failed: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> str:
    """What a conclusion that speaks of the others must not keep to itself."""
    if not failed:
        return ""
    arms = list(dict.fromkeys(quote(str(run["arm"])) for run in failed))
    text = f"{len(failed)} of {count_words(len(runs), 'run')}, of {join_words(arms, _MAX_NAMED)}; the reasons are below the table."
    return f'<p class="aside"><b>Without a model:</b> {escape(text)}</p>'


def _failures(failed: Sequence[Mapping[str, Any]]) -> str:
    if not failed:
        return ""
    by: dict[tuple[str, str], list[str]] = {}
    for run in failed:
        by.setdefault((str(run["arm"]), str(run["reason"])), []).append(str(run["seed"]))
    rows = [[escape(arm), escape(", ".join(seeds)), escape(reason)] for (arm, reason), seeds in by.items()]
    heads = [Head("arm"), Head("seeds"), Head("reason", kind="words")]
    return f"<h3>Runs that failed</h3>{html_table(heads, rows)}"
