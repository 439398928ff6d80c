"""A run over a real network: the server, which fills the same kind of folder as a simulation, and one device."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedfleet.app.assemble import Setup, assemble, executing, rebuild
from fedfleet.app.assemble.pinning import pinned
from fedfleet.app.runs.conditions import Conditions, conditions_here, keep_conditions
from fedfleet.app.runs.folder import Finished, Written, completed, make_folder, refuse_taken, write_spec
from fedfleet.app.runs.privacy import noising_of, require_secret, source_here
from fedfleet.app.spec import load_spec
from fedfleet.app.terminal.answers import say
from fedfleet.runtime import journal as journals
from fedfleet.runtime.lock import locked
from fedfleet.runtime.seals import identity
from fedfleet.runtime.signing import load_private_key
from fedfleet.runtime.wire.desk import TaskDesk
from fedfleet.runtime.wire.device import Rebuilt, attend
from fedfleet.runtime.wire.server import check_servable, largest_message, serve
from fedfleet.runtime.wire.service import Service, listening


def serve_run(
    spec_path: Path, words: Sequence[str], out: Path | None, address: str, devices: int | None, key: Path | None = None
) -> Finished:
    """Serve a spec to device processes until the run is over; the folder is like that of `fedfleet run`. `key` signs it."""
    if key is not None:
        load_private_key(key)
    spec = load_spec(spec_path, words)
    setup = assemble(spec)
    expected = setup.plan.pace.cohort if devices is None else devices
    check_servable(setup.plan, expected)
    require_secret(setup.plan.algorithm)
    source_here(setup.plan.algorithm)
    folder = out or Path("runs") / f"{spec.name}-wire-{spec.digest[:10]}"
    desk = TaskDesk(setup.plan.clients, setup.plan.byte_scale)
    service = Service(desk, pinned(spec.toml(), setup.task), spec.digest)
    with listening(service, desk, address, largest_message(setup.plan)) as (place, server):
        # The port comes first: a server that cannot listen must not leave a folder behind.
        refuse_taken(folder, resume=False)
        make_folder(folder)
        with locked(folder):
            refuse_taken(folder, resume=False)
            write_spec(spec, folder)
            (folder / "aggregates").mkdir()
            conditions = conditions_here(setup)
            keep_conditions(folder, conditions)
            server.start()
            say(
                f"listening on {place} for {expected} devices; start each with: fedfleet device --server {place} --client N"
            )
            start = time.perf_counter()
            written, params = _serve_in(setup, conditions, desk, folder, expected)
            seconds = time.perf_counter() - start
            return completed(setup, folder, written, params, seconds, key=key, noise=conditions.noise)


def _serve_in(
    setup: Setup, conditions: Conditions, desk: TaskDesk, folder: Path, devices: int
) -> tuple[Written, dict[str, Any]]:
    journal = journals.create(folder / "run.db", identity(folder, "served"))
    try:
        with executing(setup, conditions.stacked_form()) as execute:
            done = serve(
                setup.plan, setup.world, execute, desk,
                devices=devices, journal=journal, folder=folder, noising=noising_of(conditions.noise, folder),
            )  # fmt: skip
        journal.flush()
        return Written(journal.digest, journal.position, journal.link), done.server.params
    finally:
        journal.close()


def run_device(server: str, client: int) -> dict[str, Any]:
    """Be one device of a served run; the answer says how many of its tasks were accepted."""
    return {"client": client, "tasks": attend(server, client, _rebuild)}


def _rebuild(text: str) -> Rebuilt:
    """The parts that a server's spec names, built here from this machine's own registry."""
    setup = rebuild(text)
    return Rebuilt(setup.plan.algorithm, setup.world, setup.executor(), setup.spec.digest, setup.plan.params)
