"""Running a spec in a folder, from the beginning or from its last checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fedfleet.app.assemble import Setup, assemble, executing
from fedfleet.app.runs.folder import Finished, check_same_spec, completed, finished, refuse_taken, take_folder
from fedfleet.app.runs.own import Own, judged, keep, reopened
from fedfleet.app.spec import Spec
from fedfleet.app.terminal.answers import say
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Event
from fedfleet.runtime import journal as journals
from fedfleet.runtime.folder import Checkpoints, restore
from fedfleet.runtime.memory import ClientMemory
from fedfleet.runtime.simulate import Hear, simulate

Watch = Callable[[Sequence[Event]], None]


def perform(
    spec: Spec,
    out: Path,
    *,
    resume: bool = False,
    watch: Watch | None = None,
    own: Own | None = None,
    trust: str | None = None,
    hear: Hear | None = None,
) -> Finished:
    """Run a spec in a folder; with `resume`, go on from the last checkpoint there.

    `own` is the task that a person gave; a folder's own one is taken up by itself, its code only if `trust` is its hash.
    """
    if resume and (out / "spec.toml").is_file():
        check_same_spec(spec, out)
        if (out / "aggregates").is_dir():
            raise BadInput(
                f"{out} holds a run that was served over a network, which cannot be resumed; choose another folder with --out"
            )
        if (out / "metrics.json").is_file():
            return finished(out)
        own = own or reopened(out, spec, trust)
        setup = assemble(spec, own.task) if own else assemble(spec)
    else:
        refuse_taken(out, resume=resume)
        # before anything is written: a spec that cannot run leaves no trace
        setup = assemble(spec, own.task) if own else assemble(spec)
        take_folder(spec, out, resume=resume)
    if own is not None and own.given.model is not None:
        keep(own, out, spec.seed)
    start = time.perf_counter()
    digest, params = _simulate_in(setup, out, watch, hear)
    return completed(spec, out, digest, params, time.perf_counter() - start, partial(judged, own, params))


def _simulate_in(setup: Setup, out: Path, watch: Watch | None, hear: Hear | None) -> tuple[str, dict[str, Any]]:
    path = out / "run.db"
    with executing(setup, out / "executor.json") as execute:
        journal = journals.reopen(path) if path.is_file() else journals.create(path)
        try:
            limit = setup.spec.run["memory_mb"] << 20
            found = restore(out, setup.plan, setup.world, execute, eager=False, limit=limit)
            sim, position = found or (None, 0)
            journal.truncate(position)
            for note in execute.notes if sim is None else ():
                journal.remark(note)
                say(note)
            keeper = Checkpoints(out, journal, setup.spec.run["checkpoint_every"], sim.state.book.version if sim else 0)
            memory = ClientMemory(out, limit)
            done = simulate(
                setup.plan, setup.world, execute,
                journal=journal, keeper=keeper, resume=sim, memory=memory, watch=watch, hear=hear,
            )  # fmt: skip
            for remark in execute.remarks() if execute.remarks else ():
                journal.remark(remark)
            return journal.digest, done.state.server.params
        finally:
            journal.close()
