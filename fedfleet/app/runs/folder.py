"""The folder of a run: taking a new one, completing it, and reading it back."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.app.spec import Spec, load_spec
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Event, RunEnded
from fedfleet.measure.summary import summary
from fedfleet.runtime import journal as journals
from fedfleet.runtime.folder import save_tree, write_whole

# What `fedfleet run --json` answers, in this order.
CONTRACT = (
    "digest", "rounds", "commits", "accuracy", "accuracy_clients", "accuracy_bottom10", "accuracy_std", "virtual_seconds",
    "wall_seconds", "bytes_up", "bytes_down", "utilisation", "failed_rounds", "warnings", "out",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished run: its measures, its events, and its folder."""

    spec: Spec
    metrics: dict[str, Any]
    events: list[Event]
    out: Path

    def answer(self) -> dict[str, Any]:
        """The fields that the contract of `fedfleet run` names."""
        return {key: self.metrics[key] for key in CONTRACT}


def refuse_taken(out: Path, *, resume: bool) -> None:
    """Refuse a folder that has something in it; half-written files that a kill left behind do not count."""
    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} exists and is a file, not a folder; choose another name with --out")
    if out.exists() and any(p.suffix != ".part" for p in out.iterdir()):
        if resume:
            raise BadInput(f"{out} exists but is not a run; choose another folder with --out")
        raise BadInput(f"{out} exists already; continue that run with --resume, or choose another folder with --out")


def refuse_absent(out: Path) -> None:
    """Refuse to resume in a folder that does not exist: a wrong letter must not start a run afresh."""
    if not out.exists():
        raise BadInput(
            f"--resume: there is no folder {out}; name the folder of the run, or start anew without --resume"
        )


def take_folder(spec: Spec, out: Path, *, resume: bool) -> None:
    """Make the folder of a new run, and write its spec there."""
    refuse_taken(out, resume=resume)
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not os.access(out, os.W_OK):
            raise PermissionError(f"no permission to write to {out}")
        draft = out / "spec.toml.part"
        draft.write_text(spec.toml())
        draft.replace(out / "spec.toml")
    except OSError as wrong:
        raise BadInput(f"cannot create or write the folder {out}: {wrong}; choose another with --out") from None


def completed(spec: Spec, out: Path, digest: str, params: dict[str, Any], wall_seconds: float) -> Finished:
    """Write the model and the measures of a run that has just ended."""
    save_tree(out / "model.safetensors", params)
    events = list(journals.read(out / "run.db"))
    metrics = {
        **summary(events),
        "digest": digest,
        "spec_digest": spec.digest,
        "wall_seconds": wall_seconds,
        "out": str(out),
    }
    # Last, since its presence says that the run is complete.
    write_whole(out / "metrics.json", (json.dumps(metrics, indent=1) + "\n").encode())
    return Finished(spec, metrics, events, out)


def finished(out: Path) -> Finished:
    """A finished run, read from its folder."""
    spec = load_spec(out / "spec.toml")
    try:
        metrics = json.loads((out / "metrics.json").read_text())
    except (OSError, ValueError):
        raise BadInput(
            f"the run in {out} is not finished; continue it with: fedfleet run {out}/spec.toml --resume --out {out}"
        ) from None
    missing = [key for key in CONTRACT if not isinstance(metrics, dict) or key not in metrics]
    if missing:
        raise BadInput(
            f"{out}/metrics.json is damaged: it has no {missing[0]!r}; remove that file, then make it anew with: "
            f"fedfleet run {out}/spec.toml --resume --out {out}"
        )
    return Finished(spec, {**metrics, "out": str(out)}, list(journals.read(out / "run.db")), out)


def opened(out: Path) -> tuple[Spec, list[Event], bool]:
    """The spec of a run folder, its events so far, and whether the run has ended."""
    if not out.is_dir():
        raise BadInput(f"there is no run folder {out}")
    events = list(journals.read(out / "run.db"))
    return load_spec(out / "spec.toml"), events, bool(events) and isinstance(events[-1], RunEnded)


def check_same_spec(spec: Spec, out: Path) -> None:
    """Refuse to resume a folder that holds a run of another spec, and name the first difference."""
    there = load_spec(out / "spec.toml")
    if there.digest != spec.digest:
        differs = _first_difference(there.table(), spec.table())
        raise BadInput(f"{out} holds a run of another spec ({differs}); choose another folder with --out")


def _first_difference(a: Any, b: Any, path: str = "") -> str:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b} - {"run"}):
            if a.get(key) != b.get(key):
                return _first_difference(a.get(key), b.get(key), f"{path}.{key}" if path else key)
    return f"{path} is {a!r} there, {b!r} here"
