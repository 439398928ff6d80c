"""Auditing a run folder: what it says is derived again from what it is, and the first thing that lies is named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.assemble import Setup, assemble, open_executor
from fedfleet.app.assemble.feasibility import advice
from fedfleet.app.runs.conditions import (
    Conditions,
    missing_condition,
    refuse_other_weights,
    single_machine_spec,
    stored_conditions,
    with_bounds,
)
from fedfleet.app.runs.custom_task import UserInputs, load_custom_task
from fedfleet.app.runs.extra_measures import CLASS_KEYS, secret_missing, with_class_measures, with_privacy
from fedfleet.app.runs.folder_seals import RunRecord, check_chain, check_files, check_model, open_record
from fedfleet.app.runs.run_folder import FROZEN, journal_measures, stored_user_metrics, stored_weights
from fedfleet.app.spec import load_spec
from fedfleet.core.errors import RunFailed, printable
from fedfleet.core.json_text import parse_json
from fedfleet.core.trees import Tree, content_hash
from fedfleet.simulation.audit import Audit, audit_by_rerun, audit_decisions, audit_from_aggregates, audit_served_run
from fedfleet.store.journal_checks import read_events
from fedfleet.store.noise_source import VARIABLE, key_for

_SHOWN = 120  # characters of a measure, in a sentence
_UNDERIVED = ("wall_seconds", "out", "own", *CLASS_KEYS)  # measures that may be there without being derived
_NEWER = {"score", "measures", "first_weights", "test_samples", "task_results"}  # measures that folders of older versions lack
_NEWER_PRIVACY = {"noise", "epsilon_asked"}  # figures of privacy that folders of older versions lack
# Sealed, but nothing that could be derived again: how long it took here, what was said on the way, where it could be taken up.
_NEVER_DERIVED = ("wall_seconds", "remarks", "checkpoints")


def replay_run(folder: Path, *, quick: bool = False, trust: str | None = None, inputs: UserInputs | None = None) -> dict[str, Any]:
    """Audit a run. In full: train again, and name the first row that lies. Quick: seals, chain and decisions only.

    The code of an own model is run only if `trust` is its hash, or if the person has `given` it; otherwise models are believed.
    """
    run = open_record(folder)
    if quick:
        check_chain(run)
    check_files(run)
    spec, stored = load_spec(folder / "spec.toml"), stored_conditions(folder)
    custom_task = load_custom_task(folder, spec, trust, inputs, need_metrics=False)
    setup = with_bounds(assemble(single_machine_spec(spec, stored), custom_task.task if custom_task else None), stored)
    refuse_other_weights(folder, stored, setup)
    difference = missing_condition(stored)
    quick, reason = (
        (True, custom_task.unusable_reason) if custom_task and custom_task.unusable_reason and not quick else (quick, "")
    )
    audit = _audit_run(run, setup, stored, quick=quick, missing=difference)
    check_chain(run)
    usable = custom_task is None or not custom_task.unusable_reason
    tries = usable and difference is None  # elsewhere a last bit may decide between two classes
    _check_end(run, setup, stored, audit.params, tries=tries)
    by_class = () if tries or run.seal is None else CLASS_KEYS
    believed = [*audit.believed, *_NEVER_DERIVED, *by_class, *(("own",) if stored_user_metrics(folder) else ())]
    return {
        "ok": True,
        "kind": "served" if run.served else "simulated",
        "digest": run.chain.digest,
        "rows": run.chain.rows,
        "events": audit.events,
        "commits": audit.commits,
        "verified": _verified(audit, sealed=run.seal is not None),
        "not_verified": believed,
        "because": reason or _why_not_derived(run, stored, quick=quick, missing=difference, believed=believed),
        "ended": run.seal is not None,
        "out": str(folder),
    }


def _verified(audit: Audit, *, sealed: bool) -> list[str]:
    """What was verified: of a run without a commit no models and no losses, for there are none."""
    none = () if audit.commits else ("models", "losses")
    files = ("model.safetensors", "metrics.json") if sealed else ()
    return [*(one for one in audit.verified if one not in none), *files]


def replay_text(answer: dict[str, Any]) -> str:
    """What a replay verified, and what it could not."""
    lines = [
        f"replayed {answer['rows']} rows with {answer['commits'] or 'no'} models: OK, the replay matches"
        f"{'' if answer['commits'] else '; the run made no model, so there is none to verify but its first weights'}",
        f"verified: {', '.join(answer['verified'])}",
        f"not verified: {', '.join(answer['not_verified'])}{'; ' + answer['because'] if answer['because'] else ''}",
        f"digest {answer['digest'][:16]}{'' if answer['ended'] else '; the run has not ended yet'}",
    ]
    return "\n".join(lines)


def _audit_run(run: RunRecord, setup: Setup, stored: Conditions, *, quick: bool, missing: str | None) -> Audit:
    plan, world = setup.plan, setup.world
    if quick:
        served = run.served
        return audit_served_run(plan, world, None, run.rows, run.folder) if served else audit_decisions(plan, world, run.rows)
    with open_executor(setup, stored.stacked_form()) as execute:
        if run.served:
            return audit_served_run(plan, world, None if missing else execute, run.rows, run.folder)
        if secret_missing(stored.noise):
            return audit_from_aggregates(plan, world, None if missing else execute, run.rows, run.folder)
        try:
            return audit_by_rerun(plan, world, execute, run.rows, key=key_for(stored.noise))
        except RunFailed:
            if missing is None:
                raise
            return audit_decisions(plan, world, run.rows)  # what differs may be the machine


def _why_not_derived(run: RunRecord, stored: Conditions, *, quick: bool, missing: str | None, believed: list[str]) -> str | None:
    """Why something that could have been derived was not."""
    if run.served:
        return "what devices did on a real network cannot be derived; only a signature shows whether this record was forged"
    if quick:
        return "nothing was trained again; without --quick everything is"
    if secret_missing(stored.noise):
        return f"the noise comes from a secret, and {VARIABLE} does not name its file; models were made from the kept aggregates"
    return f"the run computed with {missing}" if missing is not None and "models" in believed else None


def _check_end(run: RunRecord, setup: Setup, kept: Conditions, params: Tree | None, *, tries: bool) -> None:
    """The stored model and measures of a finished run against its journal; `tries`: what the model says is asked again."""
    if run.seal is None:
        return
    events = list(read_events(run.rows))
    model_hash = check_model(run, events)
    if params is not None and model_hash != content_hash(params):
        raise RunFailed(f"{run.folder}/model.safetensors differs from the model that results from training again")
    weights = stored_weights(run.folder)
    if any(not np.array_equal(weights.get(name, ()), value) for name, value in setup.task.frozen.items()):
        raise RunFailed(f"{run.folder}/{FROZEN} does not contain the frozen weights of the run; the file was changed")
    derived = journal_measures(setup, events, run.chain.digest)
    derived = with_privacy(derived, setup.plan, kept.noise, events)
    if tries:
        derived = with_class_measures(derived, setup.task, {n: v for n, v in weights.items() if n not in setup.task.frozen})
    _check_metrics(run.folder, derived, advice(setup, events))


def _check_metrics(folder: Path, derived: dict[str, Any], newer: Sequence[str]) -> None:
    """The stored measures against what follows from the journal. Warnings and figures of privacy that are `newer` than the folder
    may be missing from it."""
    path = folder / "metrics.json"
    try:
        stored = parse_json(path.read_bytes())
        derived = json.loads(json.dumps(derived))
        stored["warnings"] = [w for w in stored.get("warnings", []) if not w.startswith("your metric ")]
        derived["warnings"] = [w for w in derived["warnings"] if w in stored["warnings"] or w not in newer]
        privacy = derived.get("privacy", {})
        for key in _NEWER_PRIVACY & privacy.keys() - stored.get("privacy", {}).keys():
            del privacy[key]
        for key in _NEWER - stored.keys():
            derived.pop(key, None)
        differing = next((key for key in derived if key not in stored or repr(stored[key]) != repr(derived[key])), None)
        extra = next((key for key in stored if key not in derived and key not in _UNDERIVED), None)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise RunFailed(f"{path} cannot be read: {error}") from None
    if differing is not None:
        source = "the model" if differing in CLASS_KEYS else "the journal"
        found, right = (printable(repr(values.get(differing)), _SHOWN) for values in (stored, derived))
        raise RunFailed(f"{path} is wrong: {differing} is {found}, but {right} follows from {source}")
    if extra is not None:
        raise RunFailed(f"{path} is wrong: {printable(extra, _SHOWN)} is not a measure of a run")
