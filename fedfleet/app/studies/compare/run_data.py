"""Runs from their folders, finished or not, as a comparison needs them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.runs import open_run, read_finished_run, stored_score
from fedfleet.app.runs.custom_task import is_custom_task
from fedfleet.app.runs.custom_task_folder import load_manifest, load_weights
from fedfleet.app.runs.user_code import sha256
from fedfleet.app.spec import Spec
from fedfleet.app.studies.compare.aim_names import check_aim
from fedfleet.app.studies.compare.records import ComparedRun
from fedfleet.core.errors import BadInput, nearest_file
from fedfleet.core.events import Event, ModelCommitted
from fedfleet.core.json_text import parse_json
from fedfleet.measure.accuracy import learning_curve
from fedfleet.measure.budget import cost_curve
from fedfleet.measure.run_progress import COMMITTED, read_progress
from fedfleet.measure.score_info import ScoreInfo, score_info_of
from fedfleet.measure.summary import summary
from fedfleet.store.journal import digest_of, identity_of
from fedfleet.store.seals import SEAL, kind_of

_JOURNAL, _SPEC, _STUDY = "run.db", "spec.toml", "study.json"
_HASH_DIGITS = 12  # digits of a hash that stands for somebody's own data or model


def read_runs(folders: Sequence[Path]) -> tuple[ComparedRun, ...]:
    """The runs in these folders, in this order; a folder of a study stands for all of its runs."""
    result = [run for folder in folders for run in runs_in(folder)]
    by_path: dict[Path, Path] = {}
    for out in result:
        if by_path.setdefault(out.resolve(), out) is not out:
            raise BadInput(f"{out} is given twice; name every run once")
    if len(result) < 2:
        what = f"{result[0]} is one" if result else "none was named"
        raise BadInput(f"a comparison needs at least two runs, and {what}; name one more folder of a run")
    return tuple(read_run(out, name) for out, name in zip(result, short_names(result), strict=True))


def runs_in(folder: Path) -> list[Path]:
    """The folder itself if it is that of a run; of a study, or a folder of runs, those that are in it, by name."""
    if not folder.exists():
        raise BadInput(
            f"there is no run folder {folder}{nearest_file(folder) or '; name the folder that fedfleet run or study wrote'}"
        )
    if not folder.is_dir():
        raise BadInput(f"{folder} is a file; name the folder of a run")
    if _is_run(folder):
        return [folder]
    for place in (folder / "runs", folder):
        inside = sorted(p for p in place.iterdir() if _is_run(p)) if place.is_dir() else []
        current_names = _study_runs(folder)
        inside = [p for p in inside if current_names is None or p.name in current_names]
        if inside:
            return inside
    raise BadInput(
        f"{folder} is neither a run nor a study: it has no {_JOURNAL}, and no folder in it has one; name the folder of a run"
    )


def _study_runs(folder: Path) -> set[str] | None:
    """The folders of the runs that a study is of; those of an earlier file of it, which lie beside them, are not. None: it does
    not say."""
    try:
        return {Path(run["folder"]).name for run in parse_json((folder / _STUDY).read_text(encoding="utf-8"))["runs"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def study_settings(folders: Sequence[Path]) -> dict[str, Any]:
    """The aim of a study, and how often it has been evaluated with more seeds, where the folders are one; else nothing."""
    if len(folders) != 1:
        return {}
    try:
        kept = parse_json((folders[0] / _STUDY).read_text(encoding="utf-8"))
        return {"aim": check_aim(kept["aim"], "aim"), "look": max(1, int(kept["look"]))}
    except (OSError, ValueError, KeyError, TypeError, BadInput):
        return {}


def _is_run(folder: Path) -> bool:
    return (folder / _JOURNAL).is_file() or (folder / _SPEC).is_file()


def read_run(out: Path, name: str) -> ComparedRun:
    """One run: of a finished one the sealed measures, of another those of its journal so far."""
    if (out / SEAL).is_file():
        done = read_finished_run(out)
        spec, events, metrics, ended = done.spec, done.events, done.metrics, True
    else:
        spec, events, ended = open_run(out)
        metrics = {**summary(events, score=stored_score(out)), "digest": digest_of(out / _JOURNAL), "out": str(out)}
    served = kind_of(identity_of(out / _JOURNAL)) == "served"
    return replace(run_from_events(name, out, identifying_table(spec, out), spec.seed, metrics, events, ended=ended), served=served)


def run_from_events(
    name: str, out: Path, table: dict[str, Any], seed: int, metrics: dict[str, Any], events: Sequence[Event], *, ended: bool
) -> ComparedRun:
    """A run from its events, as they lie in its journal."""
    run = read_progress(events)
    curve = learning_curve(run)
    traffic, joules = (cost_curve(run, what).cost for what in ("bytes", "joules"))
    return ComparedRun(
        name=name, out=out, table=table, seed=seed, metrics=metrics, seconds=curve.seconds, accuracy=curve.accuracy, ended=ended,
        end=float(events[-1].time) if events else 0.0,
        first=next((r.closed for r in run.rounds if r.outcome == COMMITTED), None),
        tested=_tested(score_info_of(metrics), max((e.total for e in run.evaluations), default=0)),
        digest=str(metrics.get("digest", "")),
        model=next((str(e.model_hash) for e in reversed(events) if isinstance(e, ModelCommitted)), ""),
        traffic=traffic, joules=joules if len(joules) and joules[-1] > 0 else joules[:0], measures=curve.measures,
    )  # fmt: skip


def _tested(score: ScoreInfo, counted: int) -> int:
    """How many samples the central test set has: as many as were counted, unless a score counts something else."""
    return counted if score.counts_answers else score.samples or 0


def measure_at(run: ComparedRun, name: str, seconds: float) -> float | None:
    """What the last evaluation at or before this moment found for another measure; None if it was not computed."""
    known = int(np.searchsorted(run.seconds, seconds, side="right"))
    values = run.measures.get(name)
    return None if values is None or not known or not np.isfinite(values[known - 1]) else float(values[known - 1])


def accuracy_at(run: ComparedRun, seconds: float) -> float | None:
    """The accuracy that the last evaluation at or before this moment found; None if there was none yet."""
    known = int(np.searchsorted(run.seconds, seconds, side="right"))
    return float(run.accuracy[known - 1]) if known else None


def identifying_table(spec: Spec, out: Path) -> dict[str, Any]:
    """The table of a spec. The name of an own task hashes the first weights too, which follow from the seed: in its place stand
    what does not, namely data, model and how many weights it has."""
    table = spec.table()
    if not is_custom_task(spec):
        return table
    try:
        saved_task = load_manifest(out)
    except BadInput:
        return table  # begun and killed before anything was kept
    arrays = sha256(json.dumps([sorted(asdict(saved_task)["arrays"].items()), saved_task.classes]))[:_HASH_DIGITS]
    model_facts = asdict(saved_task.model)
    text = sha256(json.dumps([model_facts[key] for key in ("by", "what", "layers", "args", "kwargs", "own")], sort_keys=True))
    weights = sum(int(np.prod(w.shape)) for w in load_weights(out, saved_task).values())
    rest = {key: value for key, value in table["task"].items() if key != "content"}
    return {**table, "task": {**rest, "data": arrays, "model": text[:_HASH_DIGITS], "weights": weights}}


def short_names(folders: Sequence[Path]) -> list[str]:
    """The end of each path, as long as it takes to tell them apart.

    >>> short_names([Path("a/mild/run"), Path("a/severe/run")])
    ['mild/run', 'severe/run']
    """
    paths = [p.resolve() for p in folders]
    for depth in range(1, max((len(p.parts) for p in paths), default=1)):
        names = ["/".join(p.parts[-depth:]) for p in paths]
        if len(set(names)) == len(names):
            return names
    return [str(p) for p in paths]
