"""`fedfleet serve`, `fedfleet device` and `fedfleet status`: a run with real devices over a network."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from annotated_types import Ge, Le

from fedfleet.app.terminal.answers import AS_JSON, Answer, Interrupted, option_name, say
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
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Clients, Count

if TYPE_CHECKING:
    from fedfleet.network.device.client_runtime import ClientRuntime
    from fedfleet.network.device.work import Fetch

_ADDRESS = "127.0.0.1:50051"
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_Seconds = Annotated[float, Ge(0.0)]
_Engine = Literal["torch", "numpy"]


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
    address: str = _ADDRESS,
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
    drain_seconds: _Seconds = 20.0,
    log_level: str = "info",
    sign: Path | None = None,
    check: bool = False,
) -> Any:
    """Serve a run to real devices over gRPC. What it acknowledges is on disk: killed, it goes on with --resume.

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
        drain_seconds: after SIGTERM: for how long uploads under way may go on.
        log_level: what goes to wire/log.jsonl of the run: debug, info, warning or error.
        sign: sign the finished run with this Ed25519 private key (OpenSSH or PEM).
        check: check whether the spec can be served, and stop.
    """
    from fedfleet.app.api.own_task import Columns, take_task
    from fedfleet.app.pages.report_page import write_report
    from fedfleet.app.runs.model_trust import trust_model
    from fedfleet.app.runs.served_run import access_options, check_serving, serve_run
    from fedfleet.app.spec import resolve
    from fedfleet.network.server.options import LEVELS, ServeOptions
    from fedfleet.network.server.serve import ServerStopped

    options = ServeOptions(
        address=address, devices=devices or 0, patience=patience, lease=lease, evaluate=evaluate,
        evaluate_seconds=evaluate_seconds, transmitters=transmitters, hold=hold, keep_reports=keep_reports, max_samples=max_samples,
        trust_reports=trust_reports, metrics=metrics,
        drain_seconds=drain_seconds, log_level=one_of("log_level", log_level, LEVELS), quiet=AS_JSON.get(),
    )  # fmt: skip
    access = access_options(certificate, key, client_ca, evidence, open_enrolment=open_enrolment)
    command = sys.argv[1:] if sys.argv[1:2] == ["serve"] else ()
    resolved = resolve(*take_task(spec, overrides, model, data, Columns(label, owner, input, drop, time, kind, missing)))
    if check:
        _, options = check_serving(resolved, options, access)
        whom = "edges" if resolved.edge is not None else "devices"
        text = f"this spec can be served to {options.devices} {whom}; its digest is {resolved.digest}"
        return Answer({"valid": True, "digest": resolved.digest, "devices": options.devices}, text)
    trust_model(resolved, trust_code, out)
    try:
        finished_run = serve_run(resolved, out, options, access, resume=resume, key=sign, command=command)
    except ServerStopped as reason:
        raise Interrupted(f"{reason}; what it acknowledged is on disk: resume with the same command and --resume") from None
    write_report(finished_run)
    return finished_run


def device(
    *,
    server: str = _ADDRESS,
    client: Annotated[int, Ge(0), Le(100_000_000)] | None = None,
    token: str | None = None,
    token_file: Path | None = None,
    data: Path | None = None,
    trust_code: str | None = None,
    engine: _Engine = "torch",
    store: Path | None = None,
    tls: bool = False,
    ca: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    max_bytes: Annotated[int, Ge(1)] = 2 << 30,
    max_steps: Annotated[int, Ge(1)] = 1_000_000,
    max_tasks: Annotated[int, Ge(1)] | None = None,
    max_seconds: _Seconds | None = None,
    patience: _Seconds = 600.0,
    evidence: Path | None = None,
    share_samples: bool = False,
) -> Answer:
    """Be one device: enrol at a server, then pull tasks, train on samples that stay here, and report until the run is over.

    Args:
        server: the server's address.
        client: which client of the fleet to be, from 0; default: as before, or a free one.
        token: the token that invites this device; also FEDFLEET_TOKEN or --token-file.
        token_file: a file that holds the token.
        data: your own samples, which stay here: a file like that of the server, if it serves own data (.csv, .tsv, .arff, .parquet,
            .npz or a folder); otherwise an .npz with arrays x and y, a .csv with a column called label, one sample a row, or a
            folder with one sub-folder for each class, called by its number, with .npy files (one sample each) or .csv files (one
            sample a row). A seeded fifth of them tests. Without it: the shard that the spec deals to this client, for rehearsals.
        trust_code: run the code of the server's own model, if this is its hash; it stays trusted on this machine.
        engine: what trains: "numpy" needs no PyTorch and runs no code of the run, since the model comes as a description.
        store: the folder for what this device keeps; default: a folder in ~/.local/state/fedfleet.
        tls: call with TLS, trusting whom the system trusts.
        ca: call with TLS, trusting this authority (PEM).
        certificate: this device's own certificate (PEM), if the server wants one.
        key: the private key of --certificate (PEM).
        max_bytes: the most bytes of one model or report.
        max_steps: the most training steps of one task.
        max_tasks: stop after that many tasks.
        max_seconds: stop after that many seconds of work.
        patience: for how many seconds to try a server that went out of reach.
        evidence: evidence of this device's integrity, if the server asks for it.
        share_samples: let the edge move samples of this device to other devices of the same person, as shufflefl does.
    """
    chosen: _Engine = one_of("engine", engine, get_args(_Engine))
    for name in _ONE_THREAD:  # before numpy or torch is loaded: results must not depend on the number of threads
        os.environ[name] = "1"
    from fedfleet.network.device.caps import Caps
    from fedfleet.network.device.client_loop import DeviceOptions
    from fedfleet.network.device.device_process import LocalSetup, Trust, read_token, run_device

    options = DeviceOptions(
        client=client,
        token=read_token(token, token_file),
        evidence=b"" if evidence is None else evidence.read_bytes(),
        caps=Caps(max_bytes, max_steps, max_tasks, max_seconds),
        patience=patience,
        share_samples=share_samples,
    )
    local = LocalSetup(store, data, Trust(tls, ca, certificate, key))
    summary = run_device(server, local, options, partial(_build_runtime, trust_code, chosen), say, _check_samples)
    tasks = f"{summary['tasks']} {'task' if summary['tasks'] == 1 else 'tasks'}"
    return Answer(summary, f"client {summary['client']} finished {tasks} (end: {summary['reason']})")


def _check_samples(config_bytes: bytes, data_path: Path) -> None:
    # only for a device with samples of its own: it loads their readers
    from fedfleet.app.assemble.device_runtime import check_own_samples

    check_own_samples(config_bytes, data_path)


def _build_runtime(
    trust_code: str | None, engine: _Engine, config_bytes: bytes, data_path: Path | None, fetch: Fetch
) -> ClientRuntime:
    # with the first work, and not before: it loads what trains
    from fedfleet.app.assemble.device_runtime import build_client_runtime

    return build_client_runtime(config_bytes, data_path, fetch, trust_code, engine)


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
    where = address or server or _ADDRESS
    given = read_token(token, token_file) if token is not None or token_file is not None else published_token(where)
    return Answer(ask_status(where, token=given or read_token(None, None), tls=files), format_status)
