"""Running a spec in a folder, from the beginning or from its last checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfleet.app.assemble import Setup, assemble, doubts, executing
from fedfleet.app.runs.conditions import (
    Conditions,
    adopted,
    conditions_here,
    keep_conditions,
    kept_conditions,
    refuse_other_weights,
    refuse_unlike,
)
from fedfleet.app.runs.custom_task import Own, judged, keep, reopened
from fedfleet.app.runs.folder_seals import check_chain, check_files, open_record
from fedfleet.app.runs.privacy_facts import noising_of, source_here
from fedfleet.app.runs.run_folder import (
    Finished,
    Written,
    check_same_spec,
    completed,
    finished,
    make_folder,
    refuse_taken,
    write_spec,
)
from fedfleet.app.spec import Spec
from fedfleet.app.terminal.answers import say, warn
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Event
from fedfleet.core.parts import Executor
from fedfleet.simulation.checkpoints import Checkpoints, Restored, restore
from fedfleet.simulation.simulator import Hear, simulate
from fedfleet.store import journal as journals
from fedfleet.store.client_memory import ClientMemory
from fedfleet.store.journal import Journal
from fedfleet.store.lock import locked
from fedfleet.store.noise_source import SECRET, Noising
from fedfleet.store.seals import SEAL, begun_otherwise, identity, kind_of
from fedfleet.store.signatures import load_private_key

if TYPE_CHECKING:
    from fedfleet.executors.stacked.form_choice import Form

Watch = Callable[[Sequence[Event]], None]


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who hears of a run while it goes on: `watch` of its events, `hear` of them with the simulation that they come from."""

    watch: Watch | None = None
    hear: Hear | None = None


Executing = Callable[[Setup, "Form | None"], AbstractContextManager[Executor]]


@dataclass(frozen=True, slots=True)
class Kernel:
    """How a run gets its executor: `executing` opens it; `form` is that of new stacks where it is known already."""

    executing: Executing = executing
    form: Form | None = None


OWN_KERNEL = Kernel()


def perform(
    spec: Spec,
    out: Path,
    *,
    resume: bool = False,
    watch: Watch | None = None,
    hear: Hear | None = None,
    own: Own | None = None,
    trust: str | None = None,
    key: Path | None = None,
    conditions: Conditions | None = None,
    kernel: Kernel = OWN_KERNEL,
) -> Finished:
    """Run a spec in a folder; with `resume`, go on from the last checkpoint there. `key` signs the finished run.

    `own` is the task that a person gave; a folder's own one is taken up by itself, its code only if `trust` is its hash. A new
    run computes under these `conditions`, those of another run, instead of finding out what is fastest here. `kernel` brings the
    executor, where runs share one.
    """
    if key is not None:
        load_private_key(key)  # before anything is trained
    listeners = Listeners(watch, hear)
    if resume and (out / "spec.toml").is_file():
        with locked(out):
            return _resumed(spec, out, own, trust, listeners, key, kernel)
    refuse_taken(out, resume=resume)
    setup = _assembled(spec, own)  # before anything is written: a spec that cannot run leaves no trace
    warn(doubts(setup))
    make_folder(out)
    with locked(out):
        refuse_taken(out, resume=resume)  # someone else may have taken it meanwhile
        return _begun(setup, own, out, listeners, key, kernel, conditions)


def _assembled(spec: Spec, own: Own | None) -> Setup:
    setup = assemble(spec, own.task) if own else assemble(spec)
    source_here(setup.plan.algorithm)  # a secret or an accountant that is missing is told before anything is written
    return setup


def _begun(
    setup: Setup,
    own: Own | None,
    out: Path,
    listeners: Listeners,
    key: Path | None,
    kernel: Kernel,
    given: Conditions | None = None,
) -> Finished:
    write_spec(setup.spec, out)
    if own is not None and own.given.model is not None:
        keep(own, out, setup.spec.training_seed)
    conditions = given or conditions_here(setup, kernel.form)
    keep_conditions(out, conditions)
    return _ended(setup, own, conditions, out, listeners, key, kernel)


def _resumed(
    spec: Spec, out: Path, own: Own | None, trust: str | None, listeners: Listeners, key: Path | None, kernel: Kernel
) -> Finished:
    check_same_spec(spec, out)
    if (out / "aggregates").is_dir() and not _keeps_its_own(out):
        raise BadInput(
            f"{out} holds a run that was served over a network, which cannot be resumed; choose another folder with --out"
        )
    if (out / SEAL).is_file():
        record = open_record(out)
        check_chain(record)
        check_files(record)
        return finished(out)
    if not (out / "run.db").is_file():  # stopped before its first event: nothing is lost by beginning again
        own = own or reopened(out, spec, trust)
        return _begun(_assembled(spec, own), own, out, listeners, key, kernel)
    wrong = begun_otherwise(out, journals.identity_of(out / "run.db"))
    if wrong is not None:
        raise BadInput(f"{out}: {wrong}; put it back, or begin again in another folder")
    kept = kept_conditions(out)
    refuse_unlike(out, kept)
    spec, remarks = adopted(spec, kept)
    for remark in remarks:
        say(remark)
    own = own or reopened(out, spec, trust)
    setup = _assembled(spec, own)
    refuse_other_weights(out, kept, setup)
    return _ended(setup, own, kept, out, listeners, key, kernel)


def _ended(
    setup: Setup,
    own: Own | None,
    conditions: Conditions,
    out: Path,
    listeners: Listeners,
    key: Path | None,
    kernel: Kernel,
) -> Finished:
    start = time.perf_counter()
    written, params = _simulate_in(setup, conditions, out, listeners, kernel)
    seconds = time.perf_counter() - start
    own = None if own is None else replace(own, task=setup.task)  # as the algorithm trained it
    judge = partial(judged, own, params)
    return completed(setup, out, written, params, seconds, more=judge, key=key, noise=conditions.noise)


def _simulate_in(
    setup: Setup, conditions: Conditions, out: Path, listeners: Listeners, kernel: Kernel
) -> tuple[Written, dict[str, Any]]:
    limit, noising = setup.spec.run["memory_mb"] << 20, noising_of(conditions.noise, out)
    with kernel.executing(setup, conditions.stacked_form()) as execute:
        journal, back = _taken_up(setup, execute, out, limit, noising)
        try:
            for note in execute.notes if back.sim is None else ():
                journal.remark(note)
                say(note)
            saved_at = back.sim.state.book.version if back.sim else 0
            keeper = Checkpoints(out, journal, setup.spec.run["checkpoint_every"], saved_at)
            done = simulate(
                setup.plan, setup.world, execute,
                journal=journal, keeper=keeper, resume=back.sim, memory=ClientMemory(out, limit),
                watch=listeners.watch, hear=listeners.hear, noising=noising,
            )  # fmt: skip
            for remark in execute.remarks() if execute.remarks else ():
                journal.remark(remark)
            journal.flush()
            return Written(journal.digest, journal.position, journal.link), done.state.server.params
        finally:
            journal.close()


def _keeps_its_own(out: Path) -> bool:
    """Does a simulation keep aggregates here, because its noise comes from a secret?"""
    path = out / "run.db"
    simulated = path.is_file() and kind_of(journals.identity_of(path)) == "simulated"
    return simulated and kept_conditions(out).noise.get("from") == SECRET


def _taken_up(setup: Setup, execute: Executor, out: Path, limit: int, noising: Noising) -> tuple[Journal, Restored]:
    """The journal, cut off where the newest checkpoint that belongs to it was made; damage is said and kept as a remark."""
    path = out / "run.db"
    if not path.is_file():
        return journals.create(path, identity(out)), Restored(None, 0)
    held = journals.checked(path)
    back = restore(out, setup.plan, setup.world, execute, eager=False, limit=limit, links=held.links, noising=noising)
    damages = (*((f"{path}: {held.fault}",) if held.fault else ()), *back.damages)
    journal = journals.salvaged(path, back.position, held.links) if held.fault else journals.reopen(path)
    journal.truncate(back.position)
    for damage in damages:
        remark = f"{damage}; the run goes on from {f'row {back.position}' if back.position else 'its beginning'}"
        say(remark)
        journal.remark(remark)
    return journal, back
