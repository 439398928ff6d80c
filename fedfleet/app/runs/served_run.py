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
from fedfleet.app.assemble.client_config import client_configs, shard_bytes
from fedfleet.app.assemble.serve_checks import check_serve, numpy_refusal, unused_settings
from fedfleet.app.assemble.setup import pin_frozen_weights
from fedfleet.app.runs.conditions import (
    Conditions,
    local_conditions,
    refuse_other_machine,
    stored_conditions,
    with_bounds,
    write_conditions,
)
from fedfleet.app.runs.extra_measures import noise_source, noising_of, served_noise_source
from fedfleet.app.runs.http_options import check_http
from fedfleet.app.runs.join_url import browser_lines
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
from fedfleet.app.spec import Spec
from fedfleet.app.terminal.answers import say, show, warn
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Selector
from fedfleet.network.evaluation.evaluators import ProcessEvaluator
from fedfleet.network.protocol.frames import split_address
from fedfleet.network.protocol.process_link import make_shared_folder, remove_folder
from fedfleet.network.security.enrolment import Registry
from fedfleet.network.security.enrolment_request import Terms
from fedfleet.network.security.secrets import run_key
from fedfleet.network.security.tls import ServerFiles, is_loopback, refuse_open, refuse_swapped
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.recovery import RecoveredRun, recover
from fedfleet.network.server.serve import ListeningServer, make_private, remove_reports, serve
from fedfleet.network.server.served_plan import ServedRun
from fedfleet.network.server.server_loop import ServerLoop
from fedfleet.network.server.supervisor import reserve_port
from fedfleet.store import journal as journals
from fedfleet.store.file_modes import private_files
from fedfleet.store.files import write_atomically
from fedfleet.store.journal import Journal
from fedfleet.store.lock import hold_lock
from fedfleet.store.row_text import evaluated_by_devices
from fedfleet.store.seals import SEAL, identity, kind_of
from fedfleet.store.signatures import load_private_key

SERVED = "served"


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
    for address in filter(None, (options.address, options.http)):
        refuse_open(address, access.files is not None)
    check_http(options)
    setup = assemble(spec)
    options = checked_options(setup, options)
    reserve_port(options.address)[0].close()  # a server that cannot listen must not leave a folder behind
    if options.http:
        reserve_port(options.http, "--http")[0].close()
    folder = out or Path("runs") / f"{spec.name}-wire-{spec.digest[:10]}"
    if resume:
        refuse_absent(folder)
    has_spec = (folder / "spec.toml").is_file()
    if not (resume and has_spec):
        refuse_taken(folder, resume=resume)
        warn([*setup.plan.pace.doubts, *setup.warnings])  # what nobody in a simulated fleet can do says nothing of real devices
        for sentence in unused_settings(spec, setup):
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
            known = local_conditions(setup)
            noise = served_noise_source(known.noise, setup.plan.algorithm)
            conditions = replace(known, bounded=needs_bounds(setup.plan.choose, options), noise=noise)
            write_conditions(folder, conditions)
            return _serve_and_finish(with_bounds(setup, conditions), folder, options, access, key, conditions, command)


def checked_options(setup: Setup, options: ServeOptions) -> ServeOptions:
    """The options of a server of this run, with what the spec says; whatever cannot be served is refused."""
    if options.evaluate not in ("server", "devices", "both"):
        raise BadInput(f"--evaluate: {options.evaluate!r} is not known; give server, devices or both")
    devices = options.devices or setup.plan.pace.cohort
    options = replace(options, devices=devices, checkpoint_every=setup.spec.run["checkpoint_every"])
    check_serve(setup, options)
    noise_source(setup.plan.algorithm)
    return options


def check_run(spec: Spec, options: ServeOptions) -> dict[str, Any]:
    """What can be said of a served run before any device is there; a spec that cannot be served is refused."""
    setup = assemble(spec)
    options = checked_options(setup, options)
    numpy = numpy_refusal(setup)
    return {
        "ok": True,
        "spec_digest": spec.digest,
        "devices": options.devices,
        "least": setup.plan.pace.least,
        "numpy": numpy,
        "unused": unused_settings(spec, setup),
        "warnings": [*setup.plan.pace.doubts, *setup.warnings, *setup.task.warnings],
    }


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
                on_listening=_greeter(setup.spec, setup.plan.pace.least, options, access, folder, command),
            )
            own = np.flatnonzero(served.registry.declared.own[: setup.plan.clients])
        journal.flush()
        remove_reports(folder)
        journal_end, params = JournalEnd(journal.digest, journal.position, journal.link), final_state.server.params
    finally:
        journal.close()
    seconds = time.perf_counter() - start
    by_devices = final_state.book.version in evaluated_by_devices(journals.remarks_of(folder / "run.db"))
    add_note = partial(with_note_on_scores, own=0 if by_devices else len(own))
    return complete_run(setup, folder, journal_end, params, seconds, add_measures=add_note, key=key, noise=conditions.noise)


def with_note_on_scores(measures: dict[str, Any], *, own: int) -> dict[str, Any]:
    """The measures, with a warning where scores of clients are of other people than the `own` devices that brought samples: of the
    last model no device was there to evaluate.

    >>> with_note_on_scores({"warnings": [], "accuracy_clients": 0.9}, own=3)["warnings"][0].partition(":")[0]
    '3 devices enrolled with samples of their own, and the server has none of these'
    >>> with_note_on_scores({"warnings": [], "accuracy_clients": None}, own=3)["warnings"]
    []
    """
    if not own or measures.get("accuracy_clients") is None:
        return measures
    devices = f"{own:,} device{'s' if own > 1 else ''} enrolled with samples of {'their' if own > 1 else 'its'} own"
    note = (
        f"{devices}, and the server has none of these: no device evaluated the last model, so scores of clients are of the people "
        "in the server's own table; for scores of the devices, keep devices connected until the run ends, and give them time with "
        "--evaluate-seconds"
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
    local = all(is_loopback(split_address(a, any_port=True)[0]) for a in (options.address, options.http) if a)
    terms = Terms(plan.clients, open=access.open or local, evidence=_evidence(access))
    registry = Registry(folder / "wire" / "devices.db", key, terms)
    form = conditions.stacked_form()
    facts = {"spec": pin_frozen_weights(spec.toml(), setup.task)} | ({"form": form.name, "threads": form.threads} if form else {})
    config_of = client_configs(setup, local=local)
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
            kind=setup.task.dataset.kind,
            label_shape=setup.task.dataset.y.shape[1:],
            shard=lambda c: b"" if registry.has_own_data(c) else shard_bytes(setup, c),
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
    spec: Spec, least: int, options: ServeOptions, access: AccessOptions, folder: Path, command: Sequence[str]
) -> Callable[[ServerLoop, ListeningServer], None]:
    def greet(server_loop: ServerLoop, listening: ListeningServer) -> None:
        address_record: dict[str, Any] = {"address": listening.address, "tls": access.files is not None}
        address_record |= {"http": listening.http} if listening.http else {}
        address_record |= {"command": [*command], "folder": os.getcwd()} if command else {}
        write_atomically(
            folder / "wire" / "address", (json.dumps(address_record) + "\n").encode()
        )  # for whoever watches the folder
        security = "with TLS" if access.files is not None else "on this machine only, without TLS"
        if spec.edge is not None:
            say(f"listening on {listening.address} ({security}) for {options.devices} edges")
        else:
            say(f"listening on {listening.address} ({security}) for {options.devices} devices of {spec.world['clients']} clients")
        if least > options.devices:
            say(f"a round needs {least} devices at the same time, more than --devices {options.devices}: see pace.min_clients")
        if listening.http:
            say(
                f"devices may call over HTTP too: fedfleet device --server http{'s' * (access.files is not None)}://{listening.http}"
            )
        if options.page:
            is_open, clients = server_loop.served.registry.terms.open, spec.world["clients"]
            show(browser_lines(folder, listening.http, access.files, is_open=is_open, clients=clients))
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
