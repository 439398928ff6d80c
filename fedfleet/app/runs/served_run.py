"""A run over a real network: the server, which fills the same kind of folder as a simulation."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.assemble import Setup, assemble
from fedfleet.app.assemble.client_config import check_sendable, client_configs
from fedfleet.app.assemble.setup import pin_frozen_weights
from fedfleet.app.runs.conditions import (
    Conditions,
    local_conditions,
    refuse_other_machine,
    stored_conditions,
    with_bounds,
    write_conditions,
)
from fedfleet.app.runs.extra_measures import noise_source, noising_of, require_secret
from fedfleet.app.runs.model_trust import has_model_code
from fedfleet.app.runs.run_folder import (
    FinishedRun,
    JournalEnd,
    check_same_spec,
    complete_run,
    make_folder,
    make_parent,
    read_finished_run,
    refuse_absent,
    refuse_taken,
    write_spec,
)
from fedfleet.app.spec import Spec, resolve
from fedfleet.app.terminal.answers import say, warn
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Selector
from fedfleet.network.evaluation.evaluators import ProcessEvaluator
from fedfleet.network.protocol.process_link import make_shared_folder, remove_folder
from fedfleet.network.security.enrolment import Registry
from fedfleet.network.security.enrolment_request import Terms
from fedfleet.network.security.secrets import run_key
from fedfleet.network.security.tls import ServerFiles, is_loopback, refuse_open, refuse_swapped
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.recovery import RecoveredRun, recover
from fedfleet.network.server.serve import ListeningServer, make_private, remove_reports, serve
from fedfleet.network.server.served_plan import ServedRun, check_servable
from fedfleet.network.server.server_loop import ServerLoop
from fedfleet.network.server.supervisor import reserve_port
from fedfleet.store import journal as journals
from fedfleet.store.file_modes import private_files
from fedfleet.store.files import write_atomically
from fedfleet.store.journal import Journal
from fedfleet.store.lock import hold_lock
from fedfleet.store.seals import SEAL, identity, kind_of
from fedfleet.store.signatures import load_private_key

SERVED = "served"
_SIMULATED_KEYS = ("devices", "states", "faults", "energy", "heterogeneity", "charge")


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Who may come in: with which certificates, with tokens or without, with what evidence."""

    files: ServerFiles | None = None
    open: bool = False
    evidence: str | None = None


def access_options(
    certificate: Path | None, key: Path | None, client_ca: Path | None, evidence: str | None, *, open_enrolment: bool
) -> AccessOptions:
    """The door that a command line describes."""
    if (certificate is None) != (key is None):
        raise BadInput("TLS needs both files: --certificate and --key; fedfleet certificate --out DIR makes them")
    if client_ca is not None and certificate is None:
        raise BadInput("--client-ca: devices can show certificates over TLS only; give --certificate and --key too")
    if certificate is not None and key is not None:
        refuse_swapped(certificate, key)
    files = ServerFiles(certificate, key, client_ca) if certificate is not None and key is not None else None
    return AccessOptions(files, open_enrolment, evidence)


def unused_settings(spec: Spec) -> list[str]:
    """What a spec says of a simulated fleet, which a server has no use for: real devices show how they are."""
    defaults = resolve({}).world
    keys = [f"world.{key}" for key in _SIMULATED_KEYS if spec.world.get(key) != defaults.get(key)]
    if not keys:
        return []
    single = len(keys) == 1
    return [
        f"{', '.join(keys)} {'describes' if single else 'describe'} a simulated fleet; here devices need real time, so "
        f"{'this setting has' if single else 'these settings have'} no effect"
    ]


def serve_run(
    spec: Spec,
    out: Path | None,
    options: ServeOptions,
    access: AccessOptions,
    *,
    resume: bool = False,
    key: Path | None = None,
    command: Sequence[str] = (),
) -> FinishedRun:
    """Serve a spec to devices until the run is over, or go on where a server was stopped or killed. `key` signs the run.

    `command` is what was typed: the folder keeps it, so that whoever finds a stopped run knows how to go on. Only the owner can
    read what is written.
    """
    if key is not None:
        load_private_key(key)
    setup, options = check_serving(spec, options, access)
    reserve_port(options.address)[0].close()  # a server that cannot listen must not leave a folder behind
    folder = out or Path("runs") / f"{spec.name}-wire-{spec.digest[:10]}"
    if resume:
        refuse_absent(folder)
    has_spec = (folder / "spec.toml").is_file()
    if not (resume and has_spec):
        refuse_taken(folder, resume=resume)
        warn([*setup.plan.pace.doubts, *setup.warnings])  # what nobody in a simulated fleet can do says nothing of real devices
        for sentence in unused_settings(spec):
            say(sentence)
        make_parent(folder)  # whoever may look into the folder in which runs lie: not into this one
    with private_files():
        make_folder(folder)
        make_private(folder)
        with hold_lock(folder):
            if resume and has_spec:
                check_same_spec(spec, folder)
                if (folder / SEAL).is_file():
                    return read_finished_run(folder)
                stored = stored_conditions(folder)
                return _serve_and_finish(with_bounds(setup, stored), folder, options, access, key, stored, command)
            refuse_taken(folder, resume=resume)
            write_spec(spec, folder)
            conditions = replace(local_conditions(setup), bounded=needs_bounds(setup.plan.choose, options))
            write_conditions(folder, conditions)
            return _serve_and_finish(with_bounds(setup, conditions), folder, options, access, key, conditions, command)


def check_serving(spec: Spec, options: ServeOptions, access: AccessOptions) -> tuple[Setup, ServeOptions]:
    """Everything that can be refused before a server listens and writes; the setup, and the options with what they left open."""
    refuse_open(options.address, access.files is not None)
    setup = assemble(spec)
    if options.evaluate not in ("server", "devices", "both"):
        raise BadInput(f"--evaluate: {options.evaluate!r} is not known; give server, devices or both")
    if not options.devices:
        options = replace(options, devices=setup.plan.pace.cohort)
    options = replace(options, checkpoint_every=spec.run["checkpoint_every"])
    check_servable(setup.plan, options.devices)
    if spec.edge is not None:
        check_sendable(setup)
        if options.evaluate != "server":
            raise BadInput(f"--evaluate: with [edge] the server itself evaluates models; leave --evaluate {options.evaluate} out")
    require_secret(setup.plan.algorithm)
    noise_source(setup.plan.algorithm)
    return setup, options


def needs_bounds(choose: Selector, options: ServeOptions) -> bool:
    """Does the selector go by what devices report, without bounds? Then it gets some, unless its operator trusts them."""
    needed = bool(choose.unpredictable) and not choose.bounded and not options.trust_reports
    if needed:
        say(
            f"the selector {choose.name!r} goes by what devices report, so it runs with bounds; in a simulation choose.use = "
            '"bounded" puts the same bounds around it, and --trust-reports leaves them out here'
        )
    return needed


def _serve_and_finish(
    setup: Setup,
    folder: Path,
    options: ServeOptions,
    access: AccessOptions,
    key: Path | None,
    conditions: Conditions,
    command: Sequence[str],
) -> FinishedRun:
    refuse_other_machine(folder, conditions)
    (folder / "aggregates").mkdir(exist_ok=True)
    (folder / "wire").mkdir(exist_ok=True, mode=0o700)
    start = time.perf_counter()
    journal, recovery = _open_journal(setup, folder)
    try:
        with _open_served(setup, folder, journal, options, access, conditions) as served:
            final_state = serve(
                served,
                options,
                recovery=recovery,
                tls=_tls(access),
                on_listening=_greeter(setup.spec, options, access, folder, command),
            )
            own = np.flatnonzero(served.registry.declared.own[: setup.plan.clients])
        journal.flush()
        remove_reports(folder)
        journal_end, params = JournalEnd(journal.digest, journal.position, journal.link), final_state.server.params
    finally:
        journal.close()
    seconds = time.perf_counter() - start
    add_note = partial(with_note_on_scores, own=len(own) if options.evaluate == "server" else 0)
    return complete_run(setup, folder, journal_end, params, seconds, add_measures=add_note, key=key, noise=conditions.noise)


def with_note_on_scores(measures: dict[str, Any], *, own: int) -> dict[str, Any]:
    """The measures, with a warning that scores of clients are of other people than those of the `own` devices that brought samples.

    >>> with_note_on_scores({"warnings": [], "accuracy_clients": 0.9}, own=3)["warnings"][0].partition(":")[0]
    '3 devices enrolled with samples of their own, and the server has none of these'
    >>> with_note_on_scores({"warnings": [], "accuracy_clients": None}, own=3)["warnings"]
    []
    """
    if not own or measures.get("accuracy_clients") is None:
        return measures
    devices = f"{own:,} device{'s' if own > 1 else ''} enrolled with samples of {'their' if own > 1 else 'its'} own"
    note = (
        f"{devices}, and the server has none of these: all figures by client (scores of clients, of clients that never took part, "
        "who was asked) are of the people in the server's own table; for scores of the devices, serve with --evaluate devices or "
        "--evaluate both"
    )
    return {**measures, "warnings": [*measures["warnings"], note]}


def _open_journal(setup: Setup, folder: Path) -> tuple[Journal, RecoveredRun | None]:
    """The journal of this folder: a new one, or that of a server that was stopped, with the state that it left."""
    path = folder / "run.db"
    if not path.is_file():
        return journals.create(path, identity(folder, SERVED)), None
    if kind_of(journals.identity_of(path)) != SERVED:
        raise BadInput(f"{folder} contains a simulation, not a served run; resume it with: fedfleet run --resume")
    journal, recovery = recover(setup.plan, setup.world, folder)
    book = recovery.state.book
    for damage in recovery.damages:
        say(damage)
    say(
        f"resuming in round {book.round + 1} with model {book.version}: {book.running} tasks are running, {book.arrived} "
        "reports have arrived"
    )
    return journal, recovery


@contextmanager
def _open_served(
    setup: Setup, folder: Path, journal: Journal, options: ServeOptions, access: AccessOptions, conditions: Conditions
) -> Iterator[ServedRun]:
    plan, spec = setup.plan, setup.spec
    key, shared = run_key(folder / "wire" / "run.key"), make_shared_folder()
    host = options.address.rpartition(":")[0]
    terms = Terms(plan.clients, open=access.open or is_loopback(host), evidence=_evidence(access))
    registry = Registry(folder / "wire" / "devices.db", key, terms)
    form = conditions.stacked_form()
    facts = {"spec": pin_frozen_weights(spec.toml(), setup.task)} | ({"form": form.name, "threads": form.threads} if form else {})
    config_of = client_configs(setup, local=is_loopback(host))
    try:
        yield ServedRun(
            plan,
            setup.world,
            ProcessEvaluator(facts, shared),
            registry,
            key,
            lambda c: config_of(c, registry.has_own_data(c)),
            journal,
            folder,
            spec.name,
            noising_of(conditions.noise, folder),
            setup.task.frozen,
        )
    finally:
        registry.close()
        remove_folder(shared)


def _evidence(access: AccessOptions) -> Any:
    if access.evidence is None:
        return None
    from fedfleet.network.security.attestation import evidence_by_name

    return evidence_by_name(access.evidence)


def _tls(access: AccessOptions) -> dict[str, str]:
    files = access.files
    if files is None:
        return {}
    return {
        "certificate": str(files.certificate), "key": str(files.key),
        **({"client_ca": str(files.client_ca)} if files.client_ca is not None else {}),
    }  # fmt: skip


def _greeter(
    spec: Spec, options: ServeOptions, access: AccessOptions, folder: Path, command: Sequence[str]
) -> Callable[[ServerLoop, ListeningServer], None]:
    def greet(server_loop: ServerLoop, listening: ListeningServer) -> None:
        del server_loop
        address_record: dict[str, Any] = {"address": listening.address, "tls": access.files is not None}
        address_record |= {"command": [*command], "folder": os.getcwd()} if command else {}
        write_atomically(
            folder / "wire" / "address", (json.dumps(address_record) + "\n").encode()
        )  # for whoever watches the folder
        security = "with TLS" if access.files is not None else "on this machine only, without TLS"
        if spec.edge is not None:
            say(f"listening on {listening.address} ({security}) for {options.devices} edges")
        else:
            say(f"listening on {listening.address} ({security}) for {options.devices} devices of {spec.world['clients']} clients")
        if has_model_code(spec):
            say(
                f"the model is your code, {spec.task['model']}; unless it is an nn.Sequential of PyTorch's own layers, devices get "
                "this code, and the owner of each device reads it and starts the device with: fedfleet device --trust-code "
                f"{spec.task['code']}"
            )
        what, command_text, ca = (
            ("device", "device --server", "--ca") if spec.edge is None else ("edge", "edge --upstream", "--upstream-ca")
        )
        start_text = f"fedfleet {command_text} {listening.address}"
        if access.files is None:
            say(f"start each {what} with: {start_text}")
        else:
            say(f"invite {what}s with: fedfleet token {folder}; start each with: {start_text} {ca} ..")

    return greet
