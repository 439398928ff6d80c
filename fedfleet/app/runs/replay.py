"""Auditing a run folder: what it says is derived again from what it is, and the first thing that lies is named."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.app.assemble import Setup, assemble, executing
from fedfleet.app.runs.conditions import Conditions, alone, kept_conditions, unlike
from fedfleet.app.runs.folder import measured, own_measures
from fedfleet.app.runs.own import Given, reopened
from fedfleet.app.spec import load_spec
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import ModelCommitted, RunBegan
from fedfleet.core.trees import Tree, content_hash
from fedfleet.runtime import journal as journals
from fedfleet.runtime.audit import Audit, decide_again, follow_served, run_again
from fedfleet.runtime.chain import Checked
from fedfleet.runtime.files import Damaged, load_tree
from fedfleet.runtime.record import Numbered
from fedfleet.runtime.rows import decode
from fedfleet.runtime.seals import Seal, added, begun_otherwise, changed, kind_of, read_seal

# Sealed, but nothing that could be derived again: how long it took here, what was said on the way, where it could be taken up.
_NEVER = ("wall_seconds", "remarks", "checkpoints")


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run folder as it lies there: its rows, how far their chain holds, and its seal if the run is finished."""

    folder: Path
    rows: list[Numbered]
    held: Checked
    seal: Seal | None
    served: bool


def replay_run(
    folder: Path, *, quick: bool = False, trust: str | None = None, given: Given | None = None
) -> dict[str, Any]:
    """Audit a run. In full: train again, and name the first row that lies. Quick: seals, chain and decisions only.

    The code of an own model is run only if `trust` is its hash, or if the person has `given` it; otherwise models are believed.
    """
    run = open_record(folder)
    if quick:
        check_chain(run)
    check_files(run)
    spec, kept = load_spec(folder / "spec.toml"), kept_conditions(folder)
    own = reopened(folder, spec, trust, given, judging=False)
    setup = assemble(alone(spec, kept), own.task if own else None)
    missing = unlike(kept)
    quick, lacking = (True, own.lacking) if own and own.lacking and not quick else (quick, "")
    found = _audited(run, setup, kept, quick=quick, missing=missing)
    check_chain(run)
    _check_ending(run, setup, found.params)
    believed = [*found.believed, *_NEVER, *(("own",) if own_measures(folder) else ())]
    return {
        "ok": True,
        "kind": "served" if run.served else "simulated",
        "digest": run.held.digest,
        "rows": run.held.rows,
        "events": found.events,
        "commits": found.commits,
        "verified": [*found.verified, *(("model.safetensors", "metrics.json") if run.seal else ())],
        "not_verified": believed,
        "because": lacking or _because(run, quick=quick, missing=missing, believed=believed),
        "ended": run.seal is not None,
        "out": str(folder),
    }


def open_record(folder: Path) -> RunRecord:
    """Read a run folder as it lies there."""
    if not folder.is_dir():
        raise BadInput(f"there is no run folder {folder}")
    path = folder / "run.db"
    if not path.is_file():
        raise BadInput(f"there is no journal at {path}; name the folder of a run")
    seal = read_seal(folder)
    if seal is not None:  # before the file is opened: SQLite would apply what lies beside it
        extra = added(folder, seal)
        if extra is not None:
            raise RunFailed(f"{folder}: {extra}")
    held, rows = journals.checked(path), journals.numbered_rows(path)
    if not rows:
        raise BadInput(f"the journal in {folder} is empty, so there is nothing to replay; continue the run first")
    return RunRecord(folder, rows, held, seal, kind_of(journals.identity_of(path)) == "served")


def check_chain(run: RunRecord) -> None:
    """The journal against its links, and against what was sealed at the end."""
    if run.held.fault is not None:
        raise RunFailed(f"{run.folder}/run.db was changed after it was written: {run.held.fault}")
    seal, held = run.seal, run.held
    if seal is not None and (seal.digest, seal.rows, seal.link) != (held.digest, held.rows, held.link):
        raise RunFailed(
            f"{run.folder}/run.db is not the journal that was sealed: digest, rows or last link differ from {run.folder}/seal.json"
        )
    if seal is not None and (wrong := changed(run.folder, seal, ("run.db",))):
        raise RunFailed(f"{run.folder}: {wrong}, outside of its rows")


def check_files(run: RunRecord) -> None:
    """Everything but the journal: against the seal, and against what the journal began with."""
    seal = run.seal
    if seal is not None:
        wrong = changed(run.folder, seal, seal.files.keys() - {"run.db"})
        if wrong is not None:
            raise RunFailed(f"{run.folder}: {wrong}")
    wrong = begun_otherwise(run.folder, journals.identity_of(run.folder / "run.db"))
    if wrong is not None:
        raise RunFailed(f"{run.folder}: {wrong}")


def _audited(run: RunRecord, setup: Setup, kept: Conditions, *, quick: bool, missing: str | None) -> Audit:
    plan, world = setup.plan, setup.world
    if quick:
        served = run.served
        return follow_served(plan, world, None, run.rows, run.folder) if served else decide_again(plan, world, run.rows)
    with executing(setup, kept.stacked_form()) as execute:
        if run.served:
            return follow_served(plan, world, None if missing else execute, run.rows, run.folder)
        try:
            return run_again(plan, world, execute, run.rows)
        except RunFailed:
            if missing is None:
                raise
            return decide_again(plan, world, run.rows)  # what differs may be the machine


def _because(run: RunRecord, *, quick: bool, missing: str | None, believed: list[str]) -> str | None:
    """Why something that could have been derived was not."""
    if run.served:
        return "what devices did on a real network cannot be derived; whether this record was forged, only a signature tells"
    if quick:
        return "nothing was trained again; without --quick everything is"
    return f"the run computed with {missing}" if missing is not None and "models" in believed else None


def _check_ending(run: RunRecord, setup: Setup, params: Tree | None) -> None:
    """The stored model and measures of a finished run against its journal."""
    if run.seal is None:
        return
    events = list(decode(row for _, row in run.rows))
    names = [str(e.model_hash) for e in events if isinstance(e, ModelCommitted | RunBegan)]
    stored = stored_model(run.folder)
    if stored != names[-1] or (params is not None and stored != content_hash(params)):
        raise RunFailed(
            f"{run.folder}/model.safetensors is not the model that the journal leads to; the file or the journal was changed"
        )
    _check_metrics(run.folder, measured(setup.spec, events, run.held.digest))


def stored_model(folder: Path) -> str:
    """The content hash of the model in a run folder."""
    try:
        return content_hash(load_tree(folder / "model.safetensors")[0])
    except Damaged as wrong:
        raise RunFailed(str(wrong)) from None


def _check_metrics(folder: Path, derived: dict[str, Any]) -> None:
    path = folder / "metrics.json"
    try:
        said = json.loads(path.read_bytes())
        derived = json.loads(json.dumps(derived))
        said["warnings"] = [w for w in said.get("warnings", []) if not w.startswith("your metric ")]
        odd = next((key for key in derived if key not in said or repr(said[key]) != repr(derived[key])), None)
        extra = next((key for key in said if key not in derived and key not in ("wall_seconds", "out", "own")), None)
    except (OSError, ValueError, TypeError, AttributeError) as wrong:
        raise RunFailed(f"{path} cannot be read: {wrong}") from None
    if odd is not None:
        raise RunFailed(f"{path} lies: {odd} is {said.get(odd)!r}, but {derived[odd]!r} follows from the journal")
    if extra is not None:
        raise RunFailed(f"{path} lies: {extra} is no measure of a run")
