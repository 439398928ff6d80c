"""Performing a run in a folder: begin, resume, finish; and reading a finished folder back."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from fedfleet.app.assemble import Setup, assemble, executing
from fedfleet.app.spec import Spec, load_spec
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Event, RunEnded
from fedfleet.measure.summary import summary
from fedfleet.runtime import journal as journals
from fedfleet.runtime.folder import Checkpoints, restore, save_tree, write_whole
from fedfleet.runtime.simulate import simulate

Watch = Callable[[Sequence[Event]], None]
# What `fedfleet run --json` answers, in this order.
CONTRACT = (
    "digest", "rounds", "commits", "accuracy", "accuracy_clients", "accuracy_bottom10", "accuracy_std", "virtual_seconds",
    "wall_seconds", "bytes_up", "bytes_down", "utilisation", "out",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that is over: its measures, its events, and where it lies."""

    spec: Spec
    metrics: dict[str, Any]
    events: list[Event]
    out: Path

    def answer(self) -> dict[str, Any]:
        """The fields that the contract of `fedfleet run` names."""
        return {key: self.metrics[key] for key in CONTRACT}


def perform(spec: Spec, out: Path, *, resume: bool = False, watch: Watch | None = None) -> Finished:
    """Run a spec in a folder, from its beginning or from the last checkpoint."""
    if resume and (out / "spec.toml").is_file():
        _same_spec(spec, out)
        if (out / "aggregates").is_dir():
            raise BadInput(
                f"{out} holds a run that was served over a network; it cannot be resumed, so name another with --out"
            )
        if (out / "metrics.json").is_file():
            return finished(out)
        setup = assemble(spec)
    else:
        refuse_taken(out, resume=resume)
        setup = assemble(spec)  # before anything is written: a spec that cannot run leaves no trace
        take_folder(spec, out, resume=resume)
    start = time.perf_counter()
    digest, params = _simulate_in(setup, out, watch)
    return completed(spec, out, digest, params, time.perf_counter() - start)


def completed(spec: Spec, out: Path, digest: str, params: dict[str, Any], wall_seconds: float) -> Finished:
    """Write what a run leaves behind beside its journal: the model and the measures."""
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


def _simulate_in(setup: Setup, out: Path, watch: Watch | None) -> tuple[str, dict[str, Any]]:
    path = out / "run.db"
    with executing(setup, out / "executor.json") as execute:
        journal = journals.reopen(path) if path.is_file() else journals.create(path)
        try:
            found = restore(out, setup.plan, setup.world, execute, eager=False)
            sim, position = found or (None, 0)
            journal.truncate(position)
            for note in execute.notes if sim is None else ():
                journal.remark(note)
                typer.echo(f"fedfleet: {note}", err=True)
            keeper = Checkpoints(out, journal, setup.spec.run["checkpoint_every"], sim.state.book.version if sim else 0)
            done = simulate(setup.plan, setup.world, execute, journal=journal, keeper=keeper, resume=sim, watch=watch)
            for remark in execute.remarks() if execute.remarks else ():
                journal.remark(remark)
            return journal.digest, done.state.server.params
        finally:
            journal.close()


def refuse_taken(out: Path, *, resume: bool) -> None:
    """A folder with something in it is never written to; what a kill left half-written does not count."""
    if out.exists() and (not out.is_dir() or any(p.suffix != ".part" for p in out.iterdir())):
        cure = "name another with --out" if resume else "resume it with --resume, or name another with --out"
        raise BadInput(f"{out} exists{' and is not a run' if resume else ''}; {cure}")


def take_folder(spec: Spec, out: Path, *, resume: bool) -> None:
    """Make the folder of a new run, and put its spec there."""
    refuse_taken(out, resume=resume)
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not os.access(out, os.W_OK):
            raise PermissionError(f"no permission to write to {out}")
        draft = out / "spec.toml.part"
        draft.write_text(spec.toml())
        draft.replace(out / "spec.toml")
    except OSError as wrong:
        raise BadInput(f"the output folder {out} cannot be made or written: {wrong}; name another with --out") from None


def _same_spec(spec: Spec, out: Path) -> None:
    there = load_spec(out / "spec.toml")
    if there.digest != spec.digest:
        differs = _first_difference(there.table(), spec.table())
        raise BadInput(f"{out} holds a run of another spec ({differs}); name another folder with --out")


def _first_difference(a: Any, b: Any, path: str = "") -> str:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b} - {"run"}):
            if a.get(key) != b.get(key):
                return _first_difference(a.get(key), b.get(key), f"{path}.{key}" if path else key)
    return f"{path} is {a!r} there, {b!r} here"


def finished(out: Path) -> Finished:
    """A finished run, read from its folder."""
    spec = load_spec(out / "spec.toml")
    try:
        metrics = json.loads((out / "metrics.json").read_text())
    except (OSError, ValueError):
        raise BadInput(
            f"{out} holds no finished run; resume it with: fedfleet run {out}/spec.toml --resume --out {out}"
        ) from None
    return Finished(spec, {**metrics, "out": str(out)}, list(journals.read(out / "run.db")), out)


def opened(out: Path) -> tuple[Spec, list[Event], bool]:
    """The spec and the events of a run folder so far, and whether the run has ended."""
    if not out.is_dir():
        raise BadInput(f"there is no run folder {out}")
    events = list(journals.read(out / "run.db"))
    return load_spec(out / "spec.toml"), events, bool(events) and isinstance(events[-1], RunEnded)
