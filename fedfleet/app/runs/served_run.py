"""A run over a real network: the server, which fills the same kind of folder as a simulation."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedfleet.app.assemble import Setup, assemble
from fedfleet.app.assemble.client_config import sheets
from fedfleet.app.assemble.frozen_hashes import pinned
from fedfleet.app.runs.conditions import Conditions, conditions_here, keep_conditions, kept_conditions, refuse_unlike
from fedfleet.app.runs.privacy_facts import noising_of, require_secret, source_here
from fedfleet.app.runs.run_folder import (
    Finished,
    Written,
    check_same_spec,
    completed,
    finished,
    make_folder,
    refuse_absent,
    refuse_taken,
    write_spec,
)
from fedfleet.app.spec import Spec, load_spec, resolve
from fedfleet.app.terminal.answers import say, warn
from fedfleet.core.errors import BadInput
from fedfleet.network.evaluation.evaluators import Judge
from fedfleet.network.security.enrolment import Registry
from fedfleet.network.security.enrolment_request import Terms
from fedfleet.network.security.secrets import run_key
from fedfleet.network.security.tls import ServerFiles, is_loopback, refuse_open
from fedfleet.network.server.blobs import remove_folder, shared_folder
from fedfleet.network.server.options import Serve
from fedfleet.network.server.recovery import Recovered, recovered
from fedfleet.network.server.serve import Listening, forget_reports, made_private, serve
from fedfleet.network.server.served_plan import Served, check_servable
from fedfleet.network.server.server_loop import Processor
from fedfleet.network.server.supervisor import reserved
from fedfleet.store import journal as journals
from fedfleet.store.files import write_whole
from fedfleet.store.journal import Journal
from fedfleet.store.lock import locked
from fedfleet.store.seals import SEAL, identity, kind_of
from fedfleet.store.signatures import load_private_key

SERVED = "served"
_SIMULATED = ("devices", "states", "faults", "energy", "heterogeneity", "charge")


@dataclass(frozen=True, slots=True)
class Door:
    """Who may come in: with which certificates, with tokens or without, with what evidence."""

    files: ServerFiles | None = None
    open: bool = False
    evidence: str | None = None


def door_of(
    certificate: Path | None, key: Path | None, client_ca: Path | None, evidence: str | None, *, open_enrolment: bool
) -> Door:
    """The door that a command line describes."""
    if (certificate is None) != (key is None):
        raise BadInput("TLS needs both files: --certificate and --key; fedfleet certificate --out DIR makes them")
    if client_ca is not None and certificate is None:
        raise BadInput("--client-ca: devices can show certificates over TLS only; give --certificate and --key too")
    files = ServerFiles(certificate, key, client_ca) if certificate is not None and key is not None else None
    return Door(files, open_enrolment, evidence)


def unused(spec: Spec) -> list[str]:
    """What a spec says of a simulated fleet, which a server has no use for: real devices show how they are."""
    usual = resolve({}).world
    said = [f"world.{key}" for key in _SIMULATED if spec.world.get(key) != usual.get(key)]
    if not said:
        return []
    one = len(said) == 1
    return [
        f"{', '.join(said)} {'describes' if one else 'describe'} a simulated fleet; here devices take the time that they take, and "
        f"nothing of {'it' if one else 'them'} is charged"
    ]


def serve_run(
    spec_path: Path,
    words: Sequence[str],
    out: Path | None,
    options: Serve,
    door: Door,
    *,
    resume: bool = False,
    key: Path | None = None,
    command: Sequence[str] = (),
) -> Finished:
    """Serve a spec to devices until the run is over, or go on where a server was stopped or killed. `key` signs the run.

    `command` is what was typed: the folder keeps it, so that whoever finds a stopped run knows how to go on.
    """
    if key is not None:
        load_private_key(key)
    refuse_open(options.address, door.files is not None)
    spec = load_spec(spec_path, words)
    setup = assemble(spec)
    if options.evaluate not in ("server", "devices", "both"):
        raise BadInput(f"--evaluate: {options.evaluate!r} judges nothing; say server, devices or both")
    if not options.devices:
        options = replace(options, devices=setup.plan.pace.cohort)
    options = replace(options, checkpoint_every=spec.run["checkpoint_every"])
    check_servable(setup.plan, options.devices)
    require_secret(setup.plan.algorithm)
    source_here(setup.plan.algorithm)
    reserved(options.address)[0].close()  # a server that cannot listen must not leave a folder behind
    folder = out or Path("runs") / f"{spec.name}-wire-{spec.digest[:10]}"
    if resume:
        refuse_absent(folder)
    taken = (folder / "spec.toml").is_file()
    if not (resume and taken):
        refuse_taken(folder, resume=resume)
        warn(
            [*setup.plan.pace.doubts, *setup.doubts]
        )  # what nobody in a simulated fleet can do says nothing of real devices
        for sentence in unused(spec):
            say(sentence)
        make_folder(folder)
    made_private(folder)
    with locked(folder):
        if resume and taken:
            check_same_spec(spec, folder)
            if (folder / SEAL).is_file():
                return finished(folder)
            return _served(setup, folder, options, door, key, kept_conditions(folder), command)
        refuse_taken(folder, resume=resume)
        write_spec(spec, folder)
        conditions = conditions_here(setup)
        keep_conditions(folder, conditions)
        return _served(setup, folder, options, door, key, conditions, command)


def _served(
    setup: Setup,
    folder: Path,
    options: Serve,
    door: Door,
    key: Path | None,
    conditions: Conditions,
    command: Sequence[str],
) -> Finished:
    refuse_unlike(folder, conditions)
    (folder / "aggregates").mkdir(exist_ok=True)
    (folder / "wire").mkdir(exist_ok=True, mode=0o700)
    start = time.perf_counter()
    journal, back = _taken_up(setup, folder)
    try:
        with _serving(setup, folder, journal, options, door, conditions) as served:
            done = serve(
                served,
                options,
                back=back,
                tls=_tls(door),
                listening=_greeting(setup.spec, options, door, folder, command),
            )
        journal.flush()
        forget_reports(folder)
        written, params = Written(journal.digest, journal.position, journal.link), done.server.params
    finally:
        journal.close()
    seconds = time.perf_counter() - start
    return completed(setup, folder, written, params, seconds, key=key, noise=conditions.noise)


def _taken_up(setup: Setup, folder: Path) -> tuple[Journal, Recovered | None]:
    """The journal of this folder: a new one, or that of a server that was stopped, with the state that it left."""
    path = folder / "run.db"
    if not path.is_file():
        return journals.create(path, identity(folder, SERVED)), None
    if kind_of(journals.identity_of(path)) != SERVED:
        raise BadInput(f"{folder} holds a simulation, which no devices were part of; go on with: fedfleet run --resume")
    journal, back = recovered(setup.plan, setup.world, folder)
    book = back.state.book
    for damage in back.damages:
        say(damage)
    say(
        f"going on in round {book.round + 1} with model {book.version}; {book.running} tasks are out, {book.arrived} reports in"
    )
    return journal, back


@contextmanager
def _serving(
    setup: Setup, folder: Path, journal: Journal, options: Serve, door: Door, conditions: Conditions
) -> Iterator[Served]:
    plan, spec = setup.plan, setup.spec
    key, shared = run_key(folder / "wire" / "run.key"), shared_folder()
    host = options.address.rpartition(":")[0]
    most = int(plan.algorithm.fold.total_weight)  # more samples than a sum can take need not come
    terms = Terms(plan.clients, open=door.open or is_loopback(host), most_samples=most, evidence=_evidence(door))
    registry = Registry(folder / "wire" / "devices.db", key, terms)
    form = conditions.stacked_form()
    facts = {"spec": pinned(spec.toml(), setup.task)} | ({"form": form.name, "threads": form.threads} if form else {})
    sheet = sheets(setup)
    try:
        yield Served(
            plan, setup.world, Judge(facts, shared), registry, key, lambda c: sheet(c, registry.brings_own(c)), journal, folder,
            spec.name, noising_of(conditions.noise, folder), setup.task.frozen,
        )  # fmt: skip
    finally:
        registry.close()
        remove_folder(shared)


def _evidence(door: Door) -> Any:
    if door.evidence is None:
        return None
    from fedfleet.network.security.attestation import evidence_called

    return evidence_called(door.evidence)


def _tls(door: Door) -> dict[str, str]:
    files = door.files
    if files is None:
        return {}
    return {
        "certificate": str(files.certificate), "key": str(files.key),
        **({"client_ca": str(files.client_ca)} if files.client_ca is not None else {}),
    }  # fmt: skip


def _greeting(
    spec: Spec, options: Serve, door: Door, folder: Path, command: Sequence[str]
) -> Callable[[Processor, Listening], None]:
    def greet(processor: Processor, found: Listening) -> None:
        del processor
        told: dict[str, Any] = {"address": found.address, "tls": door.files is not None}
        told |= {"command": [*command], "folder": os.getcwd()} if command else {}
        write_whole(folder / "wire" / "address", (json.dumps(told) + "\n").encode())  # for whoever watches the folder
        how = "with TLS" if door.files is not None else "on this machine only, without TLS"
        say(f"listening on {found.address} ({how}) for {options.devices} devices of {spec.world['clients']} clients")
        if door.files is None:
            say(f"start each device with: fedfleet device --server {found.address}")
        else:
            say(
                f"invite devices with: fedfleet token {folder}; start each with: fedfleet device --server {found.address} --ca .."
            )

    return greet
