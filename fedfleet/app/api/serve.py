"""`fedfleet serve` and `fedfleet status`: a run with real devices over a network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from fedfleet.app.api.device import ADDRESS
from fedfleet.app.terminal.answers import AS_JSON, Answer, Interrupted, option_name
from fedfleet.app.terminal.own_options import (
    DroppedColumns,
    InputColumns,
    KindOfTask,
    LabelColumn,
    MissingRule,
    OwnerColumn,
    OwnModel,
    OwnPath,
    TimeColumn,
)
from fedfleet.app.terminal.value_checks import one_of
from fedfleet.core.bounds import Ge, Le
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Clients, Count

_Seconds = Annotated[float, Ge(0.0)]


def serve(
    spec: Path | None = None,
    *overrides: str,
    data: OwnPath = None,
    label: LabelColumn = None,
    owner: OwnerColumn = None,
    model: OwnModel = None,
    input: InputColumns = None,
    drop: DroppedColumns = None,
    time: TimeColumn = None,
    kind: KindOfTask = None,
    missing: MissingRule = None,
    trust_code: str | None = None,
    out: Path | None = None,
    resume: bool = False,
    address: str = ADDRESS,
    devices: Clients | None = None,
    patience: _Seconds = 60.0,
    lease: Annotated[float, Ge(1.0)] = 600.0,
    evaluate: str = "server",
    evaluate_seconds: Annotated[float, Ge(0.1)] = 60.0,
    certificate: Path | None = None,
    key: Path | None = None,
    client_ca: Path | None = None,
    open_enrolment: bool = False,
    evidence: str | None = None,
    transmitters: Annotated[int, Ge(0), Le(64)] = 2,
    hold: Annotated[int, Ge(0), Le(100_000)] = 4096,
    keep_reports: bool = False,
    max_samples: Count | None = None,
    trust_reports: bool = False,
    metrics: str = "",
    http: str | None = None,
    allow_origin: list[str] | None = None,
    page: bool = False,
    drain_seconds: _Seconds = 20.0,
    log_level: str = "info",
    sign: Path | None = None,
    check: bool = False,
) -> Any:
    """Serve a run to real devices over gRPC or HTTP. What it acknowledges is on disk: killed, it goes on with --resume.

    Args:
        spec: a spec file in TOML; of its world, only the data and the number of clients are used.
        overrides: overrides of the spec, for example pace.cohort=20.
        data: your own data, a file or a folder: they test the models, and say how devices read samples of theirs.
        model: the model for your data: model.py:Net, or one that ships. Devices get its layers or its source, and each device's
            owner trusts the source once.
        trust_code: trust the code of the spec's own model, if this is its hash.
        out: the folder to write; default: runs/NAME-wire-DIGEST.
        resume: go on where a server in this folder was stopped or killed.
        address: where to listen.
        devices: the declared fleet: each round waits until that many devices are online; default: the size of the cohort.
        patience: for how many seconds a round waits for the declared fleet.
        lease: after how many seconds a task without a report is lost.
        evaluate: who evaluates models: server, devices, or both.
        evaluate_seconds: for how many seconds the server waits for devices that evaluate.
        certificate: the server's certificate (PEM): TLS.
        key: the private key of --certificate (PEM).
        client_ca: devices must show a certificate that this one signed.
        open_enrolment: admit devices without tokens, as on loopback.
        evidence: a hook that checks what devices show of themselves.
        transmitters: frontend processes that hold devices' calls (0: this one does).
        hold: calls that may wait on the line, 21 kB each.
        keep_reports: spool what devices send until its commit is made.
        max_samples: a report, or a score, of a device with data of its own counts at most that many samples, however many the
            device declares; default: ten times the median of what devices declare.
        trust_reports: let a selector that goes by losses or norms of reports believe them without bounds.
        metrics: serve metrics and health over HTTP here, without encryption: /metrics, /healthz, /readyz. Default: nowhere.
        http: let devices call over HTTP too, at this port (of the host of --address) or address, with the same certificate.
        allow_origin: let web pages of this origin call over HTTP, for example https://example.org.
        page: serve a page at /join of --http, which makes a browser a device; its URL is printed, also as a QR code.
        drain_seconds: after SIGTERM: for how long uploads under way may go on.
        log_level: what goes to wire/log.jsonl of the run: debug, info, warning or error.
        sign: sign the finished run with this Ed25519 private key (OpenSSH or PEM).
        check: check whether this spec can be served, and stop.
    """
    from fedfleet.app.api.own_task import Columns, take_task
    from fedfleet.app.pages.report_page import write_report
    from fedfleet.app.runs.http_options import checked_origins, http_address
    from fedfleet.app.runs.model_trust import trust_model
    from fedfleet.app.runs.served_run import access_options, check_run, serve_run
    from fedfleet.app.spec import resolve
    from fedfleet.network.server.options import LEVELS, ServeOptions
    from fedfleet.network.server.serve import ServerStopped

    options = ServeOptions(
        address=address, devices=devices or 0, patience=patience, lease=lease, evaluate=evaluate,
        evaluate_seconds=evaluate_seconds, transmitters=transmitters, hold=hold, keep_reports=keep_reports, max_samples=max_samples,
        trust_reports=trust_reports, metrics=metrics,
        http=http_address(http, address), origins=checked_origins(allow_origin), page=page,
        drain_seconds=drain_seconds, log_level=one_of("log_level", log_level, LEVELS), quiet=AS_JSON.get(),
    )  # fmt: skip
    access = access_options(certificate, key, client_ca, evidence, open_enrolment=open_enrolment)
    command = sys.argv[1:] if sys.argv[1:2] == ["serve"] else ()
    resolved = resolve(*take_task(spec, overrides, model, data, Columns(label, owner, input, drop, time, kind, missing)))
    trust_model(resolved, trust_code, out)
    if check:
        return _check_answer(check_run(resolved, options))
    try:
        finished_run = serve_run(resolved, out, options, access, resume=resume, key=sign, command=command)
    except ServerStopped as reason:
        raise Interrupted(f"{reason}; what it acknowledged is on disk: resume with the same command and --resume") from None
    write_report(finished_run)
    return finished_run


def _check_answer(values: dict[str, Any]) -> Answer:
    """What is said of a spec that can be served."""
    least, numpy = values["least"], values["numpy"]
    lines = [
        f"the spec can be served; its digest is {values['spec_digest'][:16]}",
        f"a round begins with {values['devices']} devices, or after --patience with those that are there, {least} at least",
        "devices may train with --engine torch or numpy"
        if numpy is None
        else f"devices need --engine torch, because --engine numpy cannot train this run: {numpy}",
    ]
    return Answer(values, "\n".join(lines), [*values["unused"], *(f"WARNING: {warning}" for warning in values["warnings"])])


def status(
    address: str | None = None,
    *,
    server: str | None = None,
    tls: bool = False,
    ca: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    token: str | None = None,
    token_file: Path | None = None,
) -> Answer:
    """Ask a running server about its run: round, model, devices, and what it waits for.

    Args:
        address: where the server listens; default: 127.0.0.1:50051.
        server: the same, as an option.
        tls: call with TLS, trusting whom the system trusts.
        ca: call with TLS, trusting this authority (PEM).
        certificate: an own certificate (PEM), if the server wants one.
        key: the private key of --certificate (PEM).
        token: the token of the server's operator; also --token-file. Not needed for a server of yours on this machine.
        token_file: a file that holds it: wire/status.token of the run.
    """
    from fedfleet.network.device.device_process import read_token
    from fedfleet.network.operations.status import ask_status, format_status
    from fedfleet.network.operations.status_token import published_token
    from fedfleet.network.security.tls import ClientFiles

    if address is not None and server is not None:
        raise BadInput(f"{option_name('server')} {server} and {address} both give the address of the server; give only one of them")
    private = tls or any(path is not None for path in (ca, certificate, key))
    files = ClientFiles(ca, certificate, key) if private else None
    where = address or server or ADDRESS
    given = read_token(token, token_file) if token is not None or token_file is not None else published_token(where)
    return Answer(ask_status(where, token=given or read_token(None, None), tls=files), format_status)
