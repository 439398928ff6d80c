"""The tables of a study as files: for people (Markdown, LaTeX), for programs (CSV, Parquet, JSON).

Every byte follows from the journals: neither the order in which runs ended, nor how often a study was interrupted, nor by how many
workers it was done changes one. Real time, which does differ, has a file of its own (wall.csv).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedfleet.app.studies.compare.comparison import plain
from fedfleet.app.studies.grid.analysis_results import MEANS
from fedfleet.app.studies.grid.quantities import Aims, quantity
from fedfleet.app.studies.grid.run_cache import RUNS, Ran
from fedfleet.app.studies.grid.study_file import Study
from fedfleet.app.studies.grid.study_tables import latex, markdown, shown_table
from fedfleet.core.errors import RunFailed
from fedfleet.store.files import write_whole

Row = Mapping[str, Any]
# What follows from the journals alone; wall.csv does not.
TABLES = ("results.csv", "results.md", "results.tex", "results.parquet", "runs.csv", "study.json")
_PARTS = ("value", "sd", "low", "high")
_OF_A_RUN = (
    "accuracy", "accuracy_at_equal_time", "virtual_seconds", "rounds", "commits", "bytes_up", "bytes_down", "time_to_target",
)  # fmt: skip


def export(
    study: Study,
    cells: Sequence[Ran],
    rows: Sequence[Row],
    analyses: Sequence[Row],
    aims: Aims,
    verdict: str,
    out: Path,
) -> list[str]:
    """Write every table into the folder; remarks on what could not be written."""
    flat = [flat_row(row, aims) for row in rows]
    header, body = shown_table(rows, study.baseline, aims)
    texts = {
        "results.csv": as_csv(flat),
        "results.md": markdown(header, body, study.name, verdict),
        "results.tex": latex(header, body),
        "runs.csv": as_csv([run_row(ran, aims) for ran in cells]),
        "wall.csv": as_csv([wall_row(ran) for ran in cells]),
        "study.json": json.dumps(plain(whole(study, cells, rows, analyses, aims, verdict)), indent=1) + "\n",
    }
    for name, text in texts.items():
        _write(out / name, text.encode())
    return _parquet(flat, out / "results.parquet")


def flat_row(row: Row, aims: Aims) -> dict[str, Any]:
    """A row of the results with one plain value in every column."""
    found: dict[str, Any] = {"arm": row["arm"]}
    found |= {
        key: value if isinstance(value, str | int | float) else json.dumps(value)
        for key, value in row["settings"].items()
    }
    found |= {"runs": row["runs"], "failed": row["failed"]}
    for key in MEANS:
        found |= _spread(key, row[key])
    time = row["time_to_target"] or {}
    found |= {"equal_time_seconds": aims.equal_time, "target": aims.target, "time_to_target_median": time.get("median")}
    found |= _spread("time_to_target_restricted_mean", time.get("restricted_mean"))
    found |= {"reached": time.get("reached"), "never": time.get("never")}
    pair = row.get("against") or {}
    return found | {
        f"against_{key}": pair.get(key) for key in ("baseline", "difference", "low", "high", "p", "p_holm", "n")
    }


def run_row(ran: Ran, aims: Aims) -> dict[str, Any]:
    """One run in runs.csv."""
    cell = ran.cell
    values = {key: quantity(ran, key, aims) if ran.run else None for key in _OF_A_RUN}
    digest = ran.run.digest if ran.run else None
    return {
        "arm": cell.arm, "seed": cell.seed, **cell.draws, **values, "folder": _folder(ran), "digest": digest, "spec_digest":
        cell.spec.digest, "reason": ran.reason,
    }  # fmt: skip


def wall_row(ran: Ran) -> dict[str, Any]:
    """The real time that a run took, as it was when it was run."""
    seconds = ran.run.metrics["wall_seconds"] if ran.run else None
    return {
        "arm": ran.cell.arm,
        "seed": ran.cell.seed,
        **ran.cell.draws,
        "folder": _folder(ran),
        "wall_seconds": seconds,
    }


def whole(
    study: Study, cells: Sequence[Ran], rows: Sequence[Row], analyses: Sequence[Row], aims: Aims, verdict: str
) -> dict[str, Any]:
    """The study as one JSON object; folders are those below the study's own."""
    return {
        "format": "fedfleet/study@1",
        "name": study.name,
        "scale": study.scale,
        "seeds": list(study.seeds),
        "baseline": study.baseline,
        "target": aims.target,
        "equal_time_seconds": aims.equal_time,
        "verdict": verdict,
        "rows": list(rows),
        "analyses": list(analyses),
        "runs": [run_row(ran, aims) for ran in cells],
    }


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as comma-separated values with a header; numbers in full, what is not known is empty."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _parquet(flat: Sequence[Mapping[str, Any]], path: Path) -> list[str]:
    """Write the results as Parquet where pyarrow is installed; a column whose values are of unlike types is text."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        return [
            'results.parquet is not written, because pyarrow is not installed; get it with: pip install "fedfleet[parquet]"'
        ]
    columns = {key: [row.get(key) for row in flat] for row in flat for key in row}
    plain = {key: _alike(values) for key, values in columns.items()}
    draft = io.BytesIO()
    parquet.write_table(arrow.table(plain), draft)
    _write(path, draft.getvalue())
    return []


def _alike(values: Sequence[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1:
        return list(values)
    if kinds <= {int, float}:
        return [None if value is None else float(value) for value in values]
    return [None if value is None else str(value) for value in values]


def _spread(key: str, mean: Mapping[str, Any] | None) -> dict[str, Any]:
    names = {"value": key, **{part: f"{key}_{part}" for part in _PARTS[1:]}}
    return {names[part]: None if mean is None else mean[part] for part in _PARTS}


def _folder(ran: Ran) -> str:
    return f"{RUNS}/{ran.out.name}"


def _write(path: Path, body: bytes) -> None:
    try:
        write_whole(path, body)
    except RunFailed as wrong:
        raise RunFailed(
            f"{str(wrong).partition(';')[0]}; free some space, then say the same again: no run is lost"
        ) from None
