"""Runs from their folders, finished or not, as a comparison needs them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.runs import finished, kept_chance, opened
from fedfleet.app.runs.custom_task import is_own
from fedfleet.app.runs.custom_task_folder import load_kept, load_weights
from fedfleet.app.runs.user_code import sha256
from fedfleet.app.spec import Spec
from fedfleet.app.studies.compare.records import Compared
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Evaluated, Event, ModelCommitted
from fedfleet.measure.accuracy import learning_curve
from fedfleet.measure.summary import summary
from fedfleet.store.journal import digest_of, identity_of
from fedfleet.store.seals import SEAL, kind_of

_JOURNAL, _SPEC, _STUDY = "run.db", "spec.toml", "study.json"
_SHOWN = 12  # digits of a hash that stands for somebody's own data or model


def read_runs(folders: Sequence[Path]) -> tuple[Compared, ...]:
    """The runs in these folders, in this order; a folder of a study stands for all of its runs."""
    found = [run for folder in folders for run in runs_in(folder)]
    seen: dict[Path, Path] = {}
    for out in found:
        if seen.setdefault(out.resolve(), out) is not out:
            raise BadInput(f"{out} is given twice; name every run once")
    if len(found) < 2:
        named = f"{found[0]} is one" if found else "none was named"
        raise BadInput(f"a comparison needs at least two runs, and {named}; name another folder of a run beside it")
    return tuple(read_run(out, name) for out, name in zip(found, short_names(found), strict=True))


def runs_in(folder: Path) -> list[Path]:
    """The folder itself if it is that of a run; of a study, or a folder of runs, those that are in it, by name."""
    if not folder.exists():
        raise BadInput(f"there is no run folder {folder}; name the folder that fedfleet run or study wrote")
    if not folder.is_dir():
        raise BadInput(f"{folder} is a file; name the folder of a run")
    if _is_run(folder):
        return [folder]
    for place in (folder / "runs", folder):
        inside = sorted(p for p in place.iterdir() if _is_run(p)) if place.is_dir() else []
        current = _current(folder)
        inside = [p for p in inside if current is None or p.name in current]
        if inside:
            return inside
    raise BadInput(
        f"{folder} is neither a run nor a study: it has no {_JOURNAL}, and no folder in it has one; name the folder of a run"
    )


def _current(folder: Path) -> set[str] | None:
    """The folders of the runs that a study is of; those of an earlier file of it, which lie beside them, are not. None: it does
    not say."""
    try:
        return {Path(run["folder"]).name for run in json.loads((folder / _STUDY).read_text(encoding="utf-8"))["runs"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_run(folder: Path) -> bool:
    return (folder / _JOURNAL).is_file() or (folder / _SPEC).is_file()


def read_run(out: Path, name: str) -> Compared:
    """One run: of a finished one the sealed measures, of another those of its journal so far."""
    if (out / SEAL).is_file():
        done = finished(out)
        spec, events, metrics, ended = done.spec, done.events, done.metrics, True
    else:
        spec, events, ended = opened(out)
        metrics = {**summary(events, chance=kept_chance(out)), "digest": digest_of(out / _JOURNAL), "out": str(out)}
    served = kind_of(identity_of(out / _JOURNAL)) == "served"
    return replace(
        from_events(name, out, told_apart(spec, out), spec.seed, metrics, events, ended=ended), served=served
    )


def from_events(
    name: str,
    out: Path,
    table: dict[str, Any],
    seed: int,
    metrics: dict[str, Any],
    events: Sequence[Event],
    *,
    ended: bool,
) -> Compared:
    """A run from its events, as they lie in its journal."""
    curve = learning_curve(events)
    return Compared(
        name=name, out=out, table=table, seed=seed, metrics=metrics, seconds=curve.seconds, accuracy=curve.accuracy, ended=ended,
        end=float(events[-1].time) if events else 0.0,
        first=next((float(e.time) for e in events if isinstance(e, ModelCommitted)), None),
        tested=max((e.total for e in events if isinstance(e, Evaluated)), default=0),
        digest=str(metrics.get("digest", "")),
        model=next((str(e.model_hash) for e in reversed(events) if isinstance(e, ModelCommitted)), ""),
    )  # fmt: skip


def accuracy_at(run: Compared, seconds: float) -> float | None:
    """The accuracy that the last evaluation at or before this moment found; None if there was none yet."""
    known = int(np.searchsorted(run.seconds, seconds, side="right"))
    return float(run.accuracy[known - 1]) if known else None


def told_apart(spec: Spec, out: Path) -> dict[str, Any]:
    """The table of a spec. The name of an own task hashes the first weights too, which follow from the seed: in its place stand
    what does not, namely data, model and how many weights it has."""
    table = spec.table()
    if not is_own(spec):
        return table
    try:
        kept = load_kept(out)
    except BadInput:
        return table  # begun and killed before anything was kept
    arrays = sha256(json.dumps([sorted(asdict(kept)["arrays"].items()), kept.classes]))[:_SHOWN]
    made = asdict(kept.model)
    text = sha256(json.dumps([made[key] for key in ("by", "what", "layers", "args", "kwargs", "own")], sort_keys=True))
    weights = sum(int(np.prod(w.shape)) for w in load_weights(out, kept).values())
    rest = {key: value for key, value in table["task"].items() if key != "content"}
    return {**table, "task": {**rest, "data": arrays, "model": text[:_SHOWN], "weights": weights}}


def short_names(folders: Sequence[Path]) -> list[str]:
    """The end of each path, as long as it takes to tell them apart.

    >>> short_names([Path("a/mild/run"), Path("a/severe/run")])
    ['mild/run', 'severe/run']
    """
    whole = [p.resolve() for p in folders]
    for depth in range(1, max((len(p.parts) for p in whole), default=1)):
        names = ["/".join(p.parts[-depth:]) for p in whole]
        if len(set(names)) == len(names):
            return names
    return [str(p) for p in whole]
