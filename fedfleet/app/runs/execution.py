"""Running a spec in a folder, from the beginning or from its last checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfleet.app.assemble import Setup, assemble, feasibility_warnings, open_executor
from fedfleet.app.runs.conditions import (
    Conditions,
    adopt_conditions,
    local_conditions,
    refuse_other_machine,
    refuse_other_weights,
    stored_conditions,
    write_conditions,
)
from fedfleet.app.runs.custom_task import (
    CustomTask,
    load_custom_task,
    save_custom_task,
    with_stored_notes,
    with_user_metrics,
)
from fedfleet.app.runs.extra_measures import noise_source, noising_of
from fedfleet.app.runs.folder_seals import check_chain, check_files, open_record
from fedfleet.app.runs.run_folder import (
    FinishedRun,
    JournalEnd,
    check_same_spec,
    complete_run,
    make_folder,
    read_finished_run,
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
from fedfleet.store.lock import hold_lock
from fedfleet.store.noise_source import SECRET, NoiseSource
from fedfleet.store.seals import SEAL, identity, identity_change, kind_of
from fedfleet.store.signatures import load_private_key

if TYPE_CHECKING:
    from fedfleet.executors.stacked.form_choice import Form

Watch = Callable[[Sequence[Event]], None]


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who hears of a run while it goes on: `watch` of its events, `hear` of them with the simulation that they come from."""

    watch: Watch | None = None
    hear: Hear | None = None


OpenExecutor = Callable[[Setup, "Form | None"], AbstractContextManager[Executor]]


@dataclass(frozen=True, slots=True)
class Kernel:
    """How a run gets its executor: `executing` opens it; `form` is that of new stacks where it is known already."""

    open_executor: OpenExecutor = open_executor
    form: Form | None = None


DEFAULT_KERNEL = Kernel()


def perform(
    spec: Spec,
    out: Path,
    *,
    resume: bool = False,
    watch: Watch | None = None,
    hear: Hear | None = None,
    custom_task: CustomTask | None = None,
    trust: str | None = None,
    key: Path | None = None,
    conditions: Conditions | None = None,
    kernel: Kernel = DEFAULT_KERNEL,
) -> FinishedRun:
    """Run a spec in a folder; with `resume`, go on from the last checkpoint there. `key` signs the finished run.

    `own` is the task that a person gave; a folder's own one is taken up by itself, its code only if `trust` is its hash. A new
    run computes under these `conditions`, those of another run, instead of finding out what is fastest here. `kernel` brings the
    executor, where runs share one.
    """
    if key is not None:
        load_private_key(key)  # before anything is trained
    listeners = Listeners(watch, hear)
    if resume and (out / "spec.toml").is_file():
        with hold_lock(out):
            return _resume(spec, out, custom_task, trust, listeners, key, kernel)
    refuse_taken(out, resume=resume)
    setup = _assemble_setup(spec, custom_task)  # before anything is written: a spec that cannot run leaves no trace
    warnings = tuple(feasibility_warnings(setup))
    warn(warnings)
    make_folder(out)
    with hold_lock(out):
        refuse_taken(out, resume=resume)  # someone else may have taken it meanwhile
        return replace(_begin(setup, custom_task, out, listeners, key, kernel, conditions), told=warnings)


def _assemble_setup(spec: Spec, custom_task: CustomTask | None) -> Setup:
    setup = assemble(spec, custom_task.task) if custom_task else assemble(spec)
    noise_source(setup.plan.algorithm)  # a secret or an accountant that is missing is told before anything is written
    return setup


def _begin(
    setup: Setup,
    custom_task: CustomTask | None,
    out: Path,
    listeners: Listeners,
    key: Path | None,
    kernel: Kernel,
    stored: Conditions | None = None,
) -> FinishedRun:
    write_spec(setup.spec, out)
    if custom_task is not None and custom_task.inputs.model is not None:
        save_custom_task(custom_task, out, setup.spec.training_seed)
    conditions = stored or local_conditions(setup, kernel.form)
    write_conditions(out, conditions)
    return _simulate_and_finish(setup, custom_task, conditions, out, listeners, key, kernel)


def _resume(
    spec: Spec, out: Path, custom_task: CustomTask | None, trust: str | None, listeners: Listeners, key: Path | None, kernel: Kernel
) -> FinishedRun:
    check_same_spec(spec, out)
    custom_task = with_stored_notes(custom_task, out)
    if (out / "aggregates").is_dir() and not _keeps_own_aggregates(out):
        raise BadInput(
            f"{out} holds a run that was served over a network, which cannot be resumed; choose another folder with --out"
        )
    if (out / SEAL).is_file():
        record = open_record(out)
        check_chain(record)
        check_files(record)
        return read_finished_run(out)
    if not (out / "run.db").is_file():  # stopped before its first event: nothing is lost by beginning again
        custom_task = custom_task or load_custom_task(out, spec, trust)
        return _begin(_assemble_setup(spec, custom_task), custom_task, out, listeners, key, kernel)
    wrong = identity_change(out, journals.identity_of(out / "run.db"))
    if wrong is not None:
        raise BadInput(f"{out}: {wrong}; restore it, or start again in another folder")
    stored = stored_conditions(out)
    refuse_other_machine(out, stored)
    spec, remarks = adopt_conditions(spec, stored)
    for remark in remarks:
        say(remark)
    custom_task = custom_task or load_custom_task(out, spec, trust)
    setup = _assemble_setup(spec, custom_task)
    refuse_other_weights(out, stored, setup)
    return _simulate_and_finish(setup, custom_task, stored, out, listeners, key, kernel)


def _simulate_and_finish(
    setup: Setup,
    custom_task: CustomTask | None,
    conditions: Conditions,
    out: Path,
    listeners: Listeners,
    key: Path | None,
    kernel: Kernel,
) -> FinishedRun:
    start = time.perf_counter()
    journal_end, params = _simulate_in(setup, conditions, out, listeners, kernel)
    wall_seconds = time.perf_counter() - start
    custom_task = None if custom_task is None else replace(custom_task, task=setup.task)  # as the algorithm trained it
    add_metrics = partial(with_user_metrics, custom_task, params)
    return complete_run(setup, out, journal_end, params, wall_seconds, add_measures=add_metrics, key=key, noise=conditions.noise)


def _simulate_in(
    setup: Setup, conditions: Conditions, out: Path, listeners: Listeners, kernel: Kernel
) -> tuple[JournalEnd, dict[str, Any]]:
    limit, noising = setup.spec.run["memory_mb"] << 20, noising_of(conditions.noise, out)
    with kernel.open_executor(setup, conditions.stacked_form()) as execute:
        journal, restored = _open_journal(setup, execute, out, limit, noising)
        try:
            for note in execute.notes if restored.sim is None else ():
                journal.remark(note)
                say(note)
            saved_at = restored.sim.state.book.version if restored.sim else 0
            keeper = Checkpoints(out, journal, setup.spec.run["checkpoint_every"], saved_at)
            simulation = simulate(
                setup.plan, setup.world, execute,
                journal=journal, keeper=keeper, resume=restored.sim, memory=ClientMemory(out, limit),
                watch=listeners.watch, hear=listeners.hear, noising=noising,
            )  # fmt: skip
            for remark in execute.warnings() if execute.warnings else ():
                journal.remark(remark)
            journal.flush()
            return JournalEnd(journal.digest, journal.position, journal.link), simulation.state.server.params
        finally:
            journal.close()


def _keeps_own_aggregates(out: Path) -> bool:
    """Does a simulation keep aggregates here, because its noise comes from a secret?"""
    path = out / "run.db"
    simulated = path.is_file() and kind_of(journals.identity_of(path)) == "simulated"
    return simulated and stored_conditions(out).noise.get("from") == SECRET


def _open_journal(setup: Setup, execute: Executor, out: Path, limit: int, noising: NoiseSource) -> tuple[Journal, Restored]:
    """The journal, cut off where the newest checkpoint that belongs to it was made; damage is said and kept as a remark."""
    path = out / "run.db"
    if not path.is_file():
        return journals.create(path, identity(out)), Restored(None, 0)
    chain = journals.check_journal(path)
    restored = restore(out, setup.plan, setup.world, execute, eager=False, limit=limit, links=chain.links, noising=noising)
    damages = (*((f"{path}: {chain.fault}",) if chain.fault else ()), *restored.damages)
    journal = journals.salvage(path, restored.position, chain.links) if chain.fault else journals.reopen(path)
    journal.truncate(restored.position)
    for damage in damages:
        remark = f"{damage}; the run goes on from {f'row {restored.position}' if restored.position else 'its beginning'}"
        say(remark)
        journal.remark(remark)
    return journal, restored
