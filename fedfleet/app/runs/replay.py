"""Auditing a run folder: replay its journal and verify every model on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from fedfleet.app.assemble import assemble, executing
from fedfleet.app.runs import opened
from fedfleet.app.runs.own import Given, reopened
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.trees import content_hash
from fedfleet.runtime.audit import audit
from fedfleet.runtime.folder import load_tree
from fedfleet.runtime.journal import digest_of


def replay_run(folder: Path, trust: str | None = None, given: Given | None = None) -> dict[str, Any]:
    """Replay the journal of a run, verify each committed model, and compare the last with the stored one.

    The code of an own model is run only if `trust` is its hash, or if the person has `given` it.
    """
    spec, events, ended = opened(folder)
    if not events:
        raise BadInput(f"the journal in {folder} is empty, so there is nothing to replay; continue the run first")
    own = reopened(folder, spec, trust, given, judging=False)
    setup = assemble(spec, own.task if own else None)
    with executing(setup, folder / "executor.json") as execute:
        found = audit(setup.plan, setup.world, execute, events, folder)
    rebuilt = content_hash(found.replayed.state.server.params)
    stored = _stored_hash(folder / "model.safetensors") if ended else None
    if stored is not None and stored != rebuilt:
        raise RunFailed(
            f"{folder}/model.safetensors is not the model that the journal leads to; the file or the journal was changed"
        )
    return {
        "ok": True,
        "digest": digest_of(folder / "run.db"),
        "facts": found.replayed.facts,
        "outcomes": found.replayed.outcomes,
        "commits": found.replayed.commits,
        "verified_by": found.source,
        "model_hash": rebuilt,
        "model_file": "identical" if stored else "not written yet",
        "ended": ended,
        "out": str(folder),
    }


def _stored_hash(path: Path) -> str:
    try:
        return content_hash(load_tree(path)[0])
    except (OSError, SafetensorError) as wrong:
        raise BadInput(f"cannot read {path}: {wrong}") from None
