"""The folder of a run: taking a new one, completing and sealing it, and reading it back."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedfleet.app.assemble import Setup, caveats, chance_of
from fedfleet.app.runs.class_measures import with_classes
from fedfleet.app.runs.folder_seals import kept_measures, require_folder
from fedfleet.app.runs.privacy_facts import with_privacy
from fedfleet.app.spec import Spec, load_spec
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import Event, RunEnded
from fedfleet.core.trees import Tree
from fedfleet.measure.summary import summary
from fedfleet.store import journal as journals
from fedfleet.store.files import load_tree, save_tree, write_whole
from fedfleet.store.hash_chain import Checked
from fedfleet.store.lock import LOCK
from fedfleet.store.seals import Seal, changed, files_of, hashes, read_seal, write_seal
from fedfleet.store.signatures import sign

# What `fedfleet run --json` answers, in this order.
CONTRACT = (
    "digest", "rounds", "commits", "accuracy", "accuracy_clients", "accuracy_bottom10", "accuracy_std", "virtual_seconds",
    "wall_seconds", "bytes_up", "bytes_down", "utilisation", "failed_rounds", "warnings", "out",
)  # fmt: skip
FROZEN = "frozen.safetensors"  # beside model.safetensors, which holds what travelled

_NO_NOISE: Mapping[str, str] = {}
More = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished run: its measures, its events, and its folder."""

    spec: Spec
    metrics: dict[str, Any]
    events: list[Event]
    out: Path

    def answer(self) -> dict[str, Any]:
        """The fields that the contract of `fedfleet run` names."""
        return {key: self.metrics[key] for key in (*CONTRACT, *(("privacy",) if "privacy" in self.metrics else ()))}


def refuse_taken(out: Path, *, resume: bool) -> None:
    """Refuse a folder that has something in it; half-written files that a kill left behind do not count."""
    try:
        there = [p for p in out.iterdir() if p.suffix != ".part" and p.name != LOCK] if out.is_dir() else []
        blocked = out.exists() and not out.is_dir()
    except OSError as wrong:
        raise _cannot_write(out, wrong) from None
    if blocked:
        raise BadInput(f"--out: {out} is a file; name a folder")
    if there:
        if resume:
            raise BadInput(f"{out} exists but is not a run; choose another folder with --out")
        raise BadInput(f"{out} exists already; continue that run with --resume, or choose another folder with --out")


def refuse_absent(out: Path) -> None:
    """Refuse to resume in a folder that does not exist: a wrong letter must not start a run afresh."""
    if not out.exists():
        raise BadInput(
            f"--resume: there is no folder {out}; name the folder of the run, or start anew without --resume"
        )


def make_folder(out: Path) -> None:
    """Make the folder of a new run, or find it empty and writable."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not os.access(out, os.W_OK):
            raise PermissionError(f"no permission to write to {out}")
    except OSError as wrong:
        raise _cannot_write(out, wrong) from None


def write_spec(spec: Spec, out: Path) -> None:
    """Write the spec into the folder of a new run."""
    try:
        draft = out / "spec.toml.part"
        draft.write_text(spec.toml(), encoding="utf-8")
        draft.replace(out / "spec.toml")
    except OSError as wrong:
        raise _cannot_write(out, wrong) from None


def _cannot_write(out: Path, wrong: OSError) -> BadInput:
    return BadInput(f"cannot create or write the folder {out}: {wrong}; choose another with --out")


def stored_weights(out: Path) -> Tree:
    """The last model of a run folder, whole: what was trained, and what was frozen if anything was."""
    frozen = load_tree(out / FROZEN)[0] if (out / FROZEN).is_file() else {}
    return {**frozen, **load_tree(out / "model.safetensors")[0]}


@dataclass(frozen=True, slots=True)
class Written:
    """What the process that wrote a journal knows of it: what the disk must say too."""

    digest: str
    rows: int
    link: str


def completed(
    setup: Setup,
    out: Path,
    written: Written,
    params: dict[str, Any],
    wall_seconds: float,
    *,
    more: More = dict,
    key: Path | None = None,
    noise: Mapping[str, str] = _NO_NOISE,
) -> Finished:
    """Write the model and the measures of a run that has just ended, and seal it.

    `more` adds measures that are not in the journal; `key` signs the seal; `noise` says where that of a private run came from.
    """
    held = journals.checked(out / "run.db")
    if held.fault is not None or Written(held.digest, held.rows, held.link) != written:
        raise RunFailed(
            f"the journal {out}/run.db on the disk is not the one that was written "
            f"({held.fault or 'its digest, rows or last link differ'}): the disk failed, or another program wrote to it; "
            "resume the run"
        )
    save_tree(out / "model.safetensors", params)
    if setup.task.frozen:
        save_tree(out / FROZEN, setup.task.frozen)
    events = list(journals.read(out / "run.db"))
    found = measured(setup.spec, events, written.digest, chance_of(setup.task), caveats(setup))
    measures = more(with_classes(with_privacy(found, setup.plan, noise, events), setup.task, params))
    metrics = {**measures, "wall_seconds": wall_seconds, "out": str(out)}
    write_whole(out / "metrics.json", (json.dumps(metrics, indent=1) + "\n").encode())
    # Last, since its presence says that the run is complete.
    seal_folder(out, held, key)
    return Finished(setup.spec, metrics, events, out)


def measured(
    spec: Spec, events: list[Event], digest: str, chance: float | None, known: Sequence[str] = ()
) -> dict[str, Any]:
    """Everything in `metrics.json` that follows from the journal, from what guessing would score on the test set, and from the
    caveats that are known of such a run."""
    return {**summary(events, chance=chance, caveats=known), "digest": digest, "spec_digest": spec.digest}


def kept_caveats(out: Path, found: Sequence[str]) -> list[str]:
    """The warnings in the measures of a run that its events alone do not tell."""
    said = kept_measures(out).get("warnings")
    return [str(warning) for warning in said if warning not in found] if isinstance(said, list) else []


def kept_chance(out: Path) -> float | None:
    """What guessing would score on the test set of a run, where its measures say so."""
    said = kept_measures(out).get("chance")
    return float(said) if isinstance(said, float | int) else None


def seal_folder(out: Path, found: Checked, key: Path | None) -> None:
    """Seal every file of a folder, and sign the seal if there is a key."""
    seal = Seal(found.digest, found.rows, found.link, hashes(out, files_of(out)))
    if key is not None:
        seal = replace(seal, signature=sign(seal.message(), key))
    write_seal(out, seal)


def finished(out: Path) -> Finished:
    """A finished run, read from its folder; what is read must be as it was sealed."""
    require_folder(out)
    seal = read_seal(out)
    if seal is None:
        load_spec(out / "spec.toml")
        again = shlex.join(["fedfleet", "run", str(out / "spec.toml"), "--resume", "--out", str(out)])
        raise BadInput(f"the run in {out} is not finished; continue it with: {again}")
    wrong = changed(out, seal, ("spec.toml", "metrics.json", "run.db"))
    if wrong is not None:
        raise RunFailed(f"{out}: {wrong}; fedfleet replay {shlex.quote(str(out))} says more")
    try:
        metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
        if not isinstance(metrics, dict) or not {*CONTRACT} <= metrics.keys():
            raise ValueError("measures are missing")
    except (OSError, ValueError) as wrong:
        raise BadInput(
            f"{out}/metrics.json cannot be read ({wrong}); fedfleet replay {shlex.quote(str(out))} says more"
        ) from None
    return Finished(
        load_spec(out / "spec.toml"), {**metrics, "out": str(out)}, list(journals.read(out / "run.db")), out
    )


def opened(out: Path) -> tuple[Spec, list[Event], bool]:
    """The spec of a run folder, its events so far, and whether the run has ended."""
    require_folder(out)
    events, seal = list(journals.read(out / "run.db")), read_seal(out)
    odd = None if seal is None else changed(out, seal, ("spec.toml", "run.db"))
    if odd is not None:
        raise RunFailed(f"{out}: {odd}; fedfleet replay {shlex.quote(str(out))} says more")
    return load_spec(out / "spec.toml"), events, bool(events) and isinstance(events[-1], RunEnded)


def own_measures(out: Path) -> dict[str, Any]:
    """What the person's own metrics said at the end of this run: it is kept, because nobody's code is run to find it again."""
    try:
        found = kept_measures(out)["own"]
        return {"own": {str(name): None if value is None else float(value) for name, value in found.items()}}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


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
