"""The results of a study as tables: in a terminal, and as files in CSV, Markdown, LaTeX, Parquet and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedfleet.app.studies.compare.comparison import json_value
from fedfleet.app.studies.grid.analysis_results import MEANS
from fedfleet.app.studies.grid.quantities import Aims, quantity
from fedfleet.app.studies.grid.study_file import Study
from fedfleet.app.studies.grid.study_runs import RUNS, StudyRun
from fedfleet.app.terminal.text import size, span
from fedfleet.core.csv_cells import guard_cell
from fedfleet.core.errors import RunFailed
from fedfleet.measure.goal import target_text
from fedfleet.measure.measure_info import MeasureInfo, measure_info
from fedfleet.measure.score_info import MINUS, ScoreInfo
from fedfleet.store.files import write_atomically

Row = Mapping[str, Any]
_ACCURACY = measure_info("accuracy", ScoreInfo())
Table = tuple[list[str], list[list[str]]]
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip


def results_table(rows: Sequence[Row], baseline: str | None, aims: Aims) -> Table:
    """Header and cells: a line for every arm, units on every number, 95 % intervals in brackets."""
    columns: dict[str, Callable[[Row], str]] = {"arm": lambda row: row["arm"], "runs": _runs}
    score = aims.score
    columns[f"{score.name} at the end"] = lambda row: mean_text(row["accuracy"], score.text)
    if aims.equal_time is not None:
        columns[f"{score.name} after {span(aims.equal_time)}"] = lambda row: mean_text(row["accuracy_at_equal_time"], score.text)
    for info in (measure_info(name, score) for name in aims.shown):
        columns[f"{info.label} at the end"] = lambda row, info=info: mean_text(row["measures"][info.name], info.text)
    columns["virtual time"] = lambda row: mean_text(row["virtual_seconds"], span, interval=False)
    columns["sent up"] = lambda row: mean_text(row["bytes_up"], size, interval=False)
    columns["sent down"] = lambda row: mean_text(row["bytes_down"], size, interval=False)
    if aims.target is not None:
        columns[f"median time to {target_text(aims.target, score)}"] = _time_text
    info_of_score = measure_info("accuracy", score)
    if baseline is not None:
        columns[f"at the end, against {baseline}"] = lambda row: _against(row, "against", baseline, info_of_score)
        if aims.equal_time is not None:
            columns[f"after {span(aims.equal_time)}, against {baseline}"] = lambda row: _against(
                row, "against_at_equal_time", baseline, info_of_score
            )
        for info in (measure_info(name, score) for name in aims.shown):
            columns[f"{info.label}, against {baseline}"] = lambda row, info=info: _against(
                {**(row.get("measures_against") or {}), "arm": row["arm"]}, info.name, baseline, info
            )
    return list(columns), [[show(row) for show in columns.values()] for row in rows]


def mean_text(mean: Mapping[str, Any] | None, unit: Callable[[float], str], *, interval: bool = True) -> str:
    """A mean with its interval, in this unit.

    >>> from fedfleet.app.terminal.text import percent
    >>> mean_text({"value": 0.9, "sd": 0.01, "low": 0.88, "high": 0.92, "n": 5}, percent)
    '90.0 % [88.0 % to 92.0 %]'
    """
    if mean is None:
        return "none"
    if not interval or mean["low"] is None:
        return unit(mean["value"])
    return f"{unit(mean['value'])} [{unit(mean['low'])} to {unit(mean['high'])}]"


def _runs(row: Row) -> str:
    return f"{row['runs']}, {row['failed']} failed" if row["failed"] else str(row["runs"])


def _time_text(row: Row) -> str:
    time = row["time_to_target"]
    if time is None:
        return "none"
    text = "not by half" if time["median"] is None else span(time["median"])
    return f"{text} ({time['never']} of {row['runs']} never)" if time["never"] else text


def _against(row: Row, key: str, baseline: str, info: MeasureInfo = _ACCURACY) -> str:
    if row["arm"] == baseline:
        return "the baseline"
    pair = row.get(key)
    if pair is None or pair["difference"] is None:
        return "no common seed"
    text = signed_difference(info, pair["difference"])
    if pair["p_holm"] is None:
        return f"{text} (one seed)"
    p = "p < 0.001" if pair["p_holm"] < 0.001 else f"p = {pair['p_holm']:.3f}"
    if pair["low"] is None:
        return f"{text} on each seed, {p}"
    low, high = (signed_difference(info, pair[end]).removesuffix(info.unit_of_differences) for end in ("low", "high"))
    return f"{text} [{low} to {high}], {p}"


def signed_difference(info: MeasureInfo, value: float) -> str:
    """A difference with its sign, as tables have it: with the minus of a keyboard, so that other programs read it.

    >>> signed_difference(measure_info("accuracy", ScoreInfo()), -0.031)
    '-3.1 points'
    """
    return info.difference(value).replace(MINUS, "-")


def align_table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table in a terminal.

    >>> print(align_table(["arm", "runs"], [["lr=0.1", "5"]]))
    arm     runs
    lr=0.1  5
    """
    lines = [header, *body]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def markdown(header: Sequence[str], body: Sequence[Sequence[str]], name: str, verdict: str) -> str:
    """The same with the conclusion before it."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(map(escape_markdown, cells))} |"

    rule = line(["---"] * len(header))
    notes = (
        "Means over seeds; 95 % intervals in brackets. Differences are of arms over common seeds (blocked design, Dunnett); "
        "their intervals and p allow for the number of arms and for looking again after more seeds. "
        "A run without a model counts with its first weights."
    )
    return "\n".join(
        [f"# {escape_markdown(name)}", "", escape_markdown(verdict), "", line(header), rule, *map(line, body), "", notes, ""]
    )


def escape_markdown(text: str) -> str:
    """Text in Markdown that stays as it is: what would be a cell, a tag, or emphasis is none.

    >>> print(escape_markdown("a|b <i>*c*</i> d_e"))
    a\\|b \\<i>\\*c\\*\\</i> d_e
    """
    return re.sub(r"([\\|<*`~])", r"\\\1", text)


def latex(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """The same as a tabular of the package booktabs."""

    def line(cells: Sequence[str]) -> str:
        text = " & ".join("".join(_LATEX.get(letter, letter) for letter in cell) for cell in cells)
        return ("{}" if text.startswith(("[", "*")) else "") + text + r" \\"  # of the line before, else

    columns = "l" * len(header)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", line(header), r"\midrule", *map(line, body), r"\bottomrule"]
    return "\n".join([*lines, r"\end{tabular}", ""])


# What follows from the journals alone; wall.csv does not.
TABLES = ("results.csv", "results.md", "results.tex", "results.parquet", "runs.csv", "study.json")
_PARTS = ("value", "sd", "low", "high")
_RUN_KEYS = (
    "accuracy", "accuracy_at_equal_time", "virtual_seconds", "rounds", "commits", "bytes_up", "bytes_down", "time_to_target",
)  # fmt: skip


def export(
    study: Study, cells: Sequence[StudyRun], rows: Sequence[Row], analyses: Sequence[Row], aims: Aims, verdict: str, out: Path
) -> list[str]:
    """Write every table into the folder; remarks on what could not be written."""
    flat = [flat_row(row, aims) for row in rows]
    header, body = results_table(rows, study.baseline, aims)
    texts = {
        "results.csv": as_csv(flat),
        "results.md": markdown(header, body, study.name, verdict),
        "results.tex": latex(header, body),
        "runs.csv": as_csv([run_row(study_run, aims) for study_run in cells]),
        "wall.csv": as_csv([wall_row(ran) for ran in cells]),
        "study.json": json.dumps(json_value(study_json(study, cells, rows, analyses, aims, verdict)), indent=1) + "\n",
    }
    for name, text in texts.items():
        _write(out / name, text.encode())
    return _parquet(flat, out / "results.parquet")


def flat_row(row: Row, aims: Aims) -> dict[str, Any]:
    """A row of the results with one plain value in every column."""
    result: dict[str, Any] = {"arm": row["arm"]}
    result |= {key: value if isinstance(value, str | int | float) else json.dumps(value) for key, value in row["settings"].items()}
    result |= {"runs": row["runs"], "failed": row["failed"]}
    for key in MEANS:
        result |= _spread(key, row[key])
    for key, mean in (row.get("measures") or {}).items():
        result |= _spread(key, mean)
    time = row["time_to_target"] or {}
    result |= {"equal_time_seconds": aims.equal_time, "target": aims.target, "time_to_target_median": time.get("median")}
    result |= _spread("time_to_target_restricted_mean", time.get("restricted_mean"))
    result |= {"reached": time.get("reached"), "never": time.get("never")}
    for name in ("against", "against_at_equal_time"):
        pair = row.get(name) or {}
        result |= {f"{name}_{key}": pair.get(key) for key in ("baseline", "difference", "low", "high", "p", "p_holm", "n")}
    return result


def run_row(study_run: StudyRun, aims: Aims) -> dict[str, Any]:
    """One run in runs.csv."""
    cell = study_run.cell
    values = {key: quantity(study_run, key, aims) if study_run.run else None for key in (*_RUN_KEYS, *aims.shown)}
    digest = study_run.run.digest if study_run.run else None
    return {
        "arm": cell.arm, "seed": cell.seed, **cell.draws, **values, "folder": _folder(study_run), "digest": digest, "spec_digest":
        cell.spec.digest, "reason": study_run.reason,
    }  # fmt: skip


def wall_row(study_run: StudyRun) -> dict[str, Any]:
    """The real time that a run took, as it was when it was run."""
    seconds = study_run.run.metrics["wall_seconds"] if study_run.run else None
    return {
        "arm": study_run.cell.arm,
        "seed": study_run.cell.seed,
        **study_run.cell.draws,
        "folder": _folder(study_run),
        "wall_seconds": seconds,
    }


def study_json(
    study: Study, cells: Sequence[StudyRun], rows: Sequence[Row], analyses: Sequence[Row], aims: Aims, verdict: str
) -> dict[str, Any]:
    """The study as one JSON object; folders are those below the study's own."""
    return {
        "format": "fedfleet/study@1",
        "name": study.name,
        "scale": study.scale,
        "seeds": list(study.seeds),
        "baseline": study.baseline,
        "target": aims.target,
        "score": aims.score.to_dict(),
        "equal_time_seconds": aims.equal_time,
        "aim": study.aim,
        "look": aims.look,
        "verdict": verdict,
        "rows": list(rows),
        "analyses": list(analyses),
        "runs": [run_row(study_run, aims) for study_run in cells],
    }


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as comma-separated values with a header; numbers in full, what is not known is empty.

    >>> as_csv([{"arm": "=A1", "accuracy": 0.5}, {"arm": "fedavg", "accuracy": -0.25}])
    "arm,accuracy\\n'=A1,0.5\\nfedavg,-0.25\\n"
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(guard_cell, columns))
    writer.writerows([guard_cell(row.get(key, "")) for key in columns] for row in rows)
    return out.getvalue()


def _parquet(flat: Sequence[Mapping[str, Any]], path: Path) -> list[str]:
    """Write the results as Parquet where pyarrow is installed; a column whose values differ in type is text."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        return ['results.parquet is not written, because pyarrow is not installed; get it with: pip install "fedfleet[parquet]"']
    columns = {key: [row.get(key) for row in flat] for row in flat for key in row}
    plain = {key: _same_type(values) for key, values in columns.items()}
    draft = io.BytesIO()
    parquet.write_table(arrow.table(plain), draft)
    _write(path, draft.getvalue())
    return []


def _same_type(values: Sequence[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1:
        return list(values)
    if kinds <= {int, float}:
        return [None if value is None else float(value) for value in values]
    return [None if value is None else str(value) for value in values]


def _spread(key: str, mean: Mapping[str, Any] | None) -> dict[str, Any]:
    names = {"value": key, **{part: f"{key}_{part}" for part in _PARTS[1:]}}
    return {names[part]: None if mean is None else mean[part] for part in _PARTS}


def _folder(study_run: StudyRun) -> str:
    return f"{RUNS}/{study_run.out.name}"


def _write(path: Path, body: bytes) -> None:
    try:
        write_atomically(path, body)
    except RunFailed as error:
        raise RunFailed(
            f"{str(error).partition(';')[0]}; free some space, then run the same command again: no run is lost"
        ) from None
