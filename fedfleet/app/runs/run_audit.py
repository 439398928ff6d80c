"""Auditing a run folder: what it says is derived again from what it is, and the first thing that lies is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.assemble import Setup, assemble, caveats, chance_of, executing
from fedfleet.app.runs.class_measures import KEYS, with_classes
from fedfleet.app.runs.conditions import Conditions, alone, kept_conditions, refuse_other_weights, unlike
from fedfleet.app.runs.custom_task import Given, reopened
from fedfleet.app.runs.folder_seals import RunRecord, check_chain, check_files, check_model, open_record
from fedfleet.app.runs.privacy_facts import secret_missing, with_privacy
from fedfleet.app.runs.run_folder import FROZEN, measured, own_measures, stored_weights
from fedfleet.app.spec import load_spec
from fedfleet.core.errors import RunFailed
from fedfleet.core.trees import Tree, content_hash
from fedfleet.simulation.audit import Audit, decide_again, follow_kept, follow_served, run_again
from fedfleet.store.journal_rows import decode
from fedfleet.store.noise_source import VARIABLE, key_for

_UNDERIVED = ("wall_seconds", "out", "own", *KEYS)  # measures that may be there without being derived
# Sealed, but nothing that could be derived again: how long it took here, what was said on the way, where it could be taken up.
_NEVER = ("wall_seconds", "remarks", "checkpoints")


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
    refuse_other_weights(folder, kept, setup)
    missing = unlike(kept)
    quick, lacking = (True, own.lacking) if own and own.lacking and not quick else (quick, "")
    found = _audited(run, setup, kept, quick=quick, missing=missing)
    check_chain(run)
    tries = not lacking and missing is None  # elsewhere a last bit may decide between two classes
    _check_ending(run, setup, kept, found.params, tries=tries)
    by_class = () if tries or run.seal is None else KEYS
    believed = [*found.believed, *_NEVER, *by_class, *(("own",) if own_measures(folder) else ())]
    return {
        "ok": True,
        "kind": "served" if run.served else "simulated",
        "digest": run.held.digest,
        "rows": run.held.rows,
        "events": found.events,
        "commits": found.commits,
        "verified": [*found.verified, *(("model.safetensors", "metrics.json") if run.seal else ())],
        "not_verified": believed,
        "because": lacking or _because(run, kept, quick=quick, missing=missing, believed=believed),
        "ended": run.seal is not None,
        "out": str(folder),
    }


def _audited(run: RunRecord, setup: Setup, kept: Conditions, *, quick: bool, missing: str | None) -> Audit:
    plan, world = setup.plan, setup.world
    if quick:
        served = run.served
        return follow_served(plan, world, None, run.rows, run.folder) if served else decide_again(plan, world, run.rows)
    with executing(setup, kept.stacked_form()) as execute:
        if run.served:
            return follow_served(plan, world, None if missing else execute, run.rows, run.folder)
        if secret_missing(kept.noise):
            return follow_kept(plan, world, None if missing else execute, run.rows, run.folder)
        try:
            return run_again(plan, world, execute, run.rows, key=key_for(kept.noise))
        except RunFailed:
            if missing is None:
                raise
            return decide_again(plan, world, run.rows)  # what differs may be the machine


def _because(run: RunRecord, kept: Conditions, *, quick: bool, missing: str | None, believed: list[str]) -> str | None:
    """Why something that could have been derived was not."""
    if run.served:
        return "what devices did on a real network cannot be derived; whether this record was forged, only a signature tells"
    if quick:
        return "nothing was trained again; without --quick everything is"
    if secret_missing(kept.noise):
        return f"its noise comes from a secret, whose file {VARIABLE} does not name; models were made of the kept aggregates"
    return f"the run computed with {missing}" if missing is not None and "models" in believed else None


def _check_ending(run: RunRecord, setup: Setup, kept: Conditions, params: Tree | None, *, tries: bool) -> None:
    """The stored model and measures of a finished run against its journal; `tries`: what the model says is asked again."""
    if run.seal is None:
        return
    events = list(decode(row for _, row in run.rows))
    stored = check_model(run, events)
    if params is not None and stored != content_hash(params):
        raise RunFailed(f"{run.folder}/model.safetensors is not the model that training again leads to")
    whole = stored_weights(run.folder)
    if any(not np.array_equal(whole.get(name, ()), value) for name, value in setup.task.frozen.items()):
        raise RunFailed(f"{run.folder}/{FROZEN} does not hold the frozen weights of the run; the file was changed")
    found = measured(setup.spec, events, run.held.digest, chance_of(setup.task), caveats(setup))
    found = with_privacy(found, setup.plan, kept.noise, events)
    if tries:
        found = with_classes(found, setup.task, {n: v for n, v in whole.items() if n not in setup.task.frozen})
    _check_metrics(run.folder, found)


def _check_metrics(folder: Path, derived: dict[str, Any]) -> None:
    path = folder / "metrics.json"
    try:
        said = json.loads(path.read_bytes())
        derived = json.loads(json.dumps(derived))
        said["warnings"] = [w for w in said.get("warnings", []) if not w.startswith("your metric ")]
        odd = next((key for key in derived if key not in said or repr(said[key]) != repr(derived[key])), None)
        extra = next((key for key in said if key not in derived and key not in _UNDERIVED), None)
    except (OSError, ValueError, TypeError, AttributeError) as wrong:
        raise RunFailed(f"{path} cannot be read: {wrong}") from None
    if odd is not None:
        source = "the model" if odd in KEYS else "the journal"
        raise RunFailed(f"{path} lies: {odd} is {said.get(odd)!r}, but {derived[odd]!r} follows from {source}")
    if extra is not None:
        raise RunFailed(f"{path} lies: {extra} is no measure of a run")
