"""The runs of a study on the disk: each in a folder that is named by its spec's digest, so that nothing is run twice."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.app.studies.compare.records import ComparedRun
from fedfleet.app.studies.compare.run_data import read_run
from fedfleet.app.studies.grid.expansion import Cell
from fedfleet.app.terminal.text import span
from fedfleet.core.errors import FedFleetError
from fedfleet.store.seals import SEAL

RUNS = "runs"
_DIGITS = 16  # of a digest, in the name of a folder
_NAME = 60  # letters of an arm, in the name of a folder


@dataclass(frozen=True, slots=True)
class StudyRun:
    """What became of one run: its measures and its curve, or the reason why it has none.

    A run that ended in order but made no model has both.
    """

    cell: Cell
    out: Path
    run: ComparedRun | None = None
    reason: str | None = None

    @property
    def good(self) -> bool:
        """Did it make a model?"""
        return self.reason is None

    @property
    def metrics(self) -> Mapping[str, Any] | None:
        """Its measures, as metrics.json has them."""
        return None if self.run is None else self.run.metrics


def run_folders(out: Path, cells: Sequence[Cell]) -> list[Path]:
    """Where each run lies, or will: a folder with its digest that is there already is used, whatever it is called."""
    existing = {path.name[-_DIGITS:]: path for path in sorted((out / RUNS).glob(f"*-{'?' * _DIGITS}")) if path.is_dir()}
    return [existing.get(_digest_mark(cell), out / RUNS / f"{_slug(cell)}-{_digest_mark(cell)}") for cell in cells]


def has_other_model(out: Path, cells: Sequence[Cell]) -> bool:
    """Do runs of a model of somebody's own lie here, none of which had the data and first weights that are asked for now?"""
    own_contents = {cell.spec.task.get("content") for cell in cells if cell.own is not None}
    existing = {_content(path) for path in (out / RUNS).glob("*/spec.toml")} - {None} if own_contents else set[Any]()
    return bool(existing) and not existing & own_contents


def _content(spec: Path) -> Any:
    try:
        return tomllib.loads(spec.read_text(encoding="utf-8"))["task"].get("content")
    except (OSError, ValueError, KeyError, AttributeError):  # whatever it is, it is none of ours
        return None


def has_seal(folder: Path) -> bool:
    """Is there a finished run?"""
    return (folder / SEAL).is_file()


def read_study_run(cell: Cell, out: Path, failure: str | None = None) -> StudyRun:
    """What became of a run, from its folder; `failure` says why it could not be finished."""
    if failure is not None:
        return StudyRun(cell, out, reason=failure)
    try:
        run = read_run(out, cell.title)
    except FedFleetError as error:
        return StudyRun(cell, out, reason=f"{error}; move the folder away to have it run again")
    return StudyRun(cell, out, run, None if run.metrics["commits"] else _no_model_reason(run.metrics))


def _no_model_reason(metrics: Mapping[str, Any]) -> str:
    failed: dict[str, int] = metrics["failed_rounds"]
    most = max(failed, key=lambda why: (failed[why], why), default=None)
    why = f" (most often: {most})" if most else ""
    return (
        f"no model was made in {metrics['rounds']} rounds and {span(metrics['virtual_seconds'])} of virtual time{why}"
    )


def _digest_mark(cell: Cell) -> str:
    return cell.spec.digest[:_DIGITS]


def _slug(cell: Cell) -> str:
    words = re.sub(r"[^a-z0-9.]+", "-", cell.arm.lower()).strip("-.")[:_NAME].rstrip("-.")
    return f"{words or 'arm'}-s{'-'.join(map(str, cell.repetition))}"
