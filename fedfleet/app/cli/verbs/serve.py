"""`fedfleet serve`: a run with real devices over the network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, Interrupted, SigningKey, answer, warn
from fedfleet.core.limits import MAX_CLIENTS

_SECURITY, _PACE, _MACHINE = "Who may come in", "Waiting for devices", "The machine"


def serve(
    spec: Annotated[
        Path,
        typer.Argument(help="A spec file in TOML; of its world, only the data and the number of clients are used."),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Overrides of the spec, for example pace.cohort=20."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder to write; default: runs/NAME-wire-DIGEST.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where a server in this folder was stopped or killed.")
    ] = False,
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen.")] = "127.0.0.1:50051",
    devices: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_CLIENTS,
            rich_help_panel=_PACE,
            help="The declared fleet: each round waits until so many devices are there; default: the size of the cohort.",
        ),
    ] = None,
    patience: Annotated[
        float,
        typer.Option(min=0.0, rich_help_panel=_PACE, help="For how many seconds a round waits for the declared fleet."),
    ] = 60.0,
    lease: Annotated[
        float,
        typer.Option(min=1.0, rich_help_panel=_PACE, help="After how many seconds a task without a report is lost."),
    ] = 600.0,
    evaluate: Annotated[
        str, typer.Option(rich_help_panel=_PACE, help="Who judges models: server, devices, or both.")
    ] = "server",
    evaluate_seconds: Annotated[
        float,
        typer.Option(min=0.1, rich_help_panel=_PACE, help="For how many seconds devices that judge are waited for."),
    ] = 60.0,
    certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=_SECURITY, help="The server's certificate (PEM): TLS."),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=_SECURITY, help="The private key of --certificate (PEM)."),
    ] = None,
    client_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", rich_help_panel=_SECURITY, help="Devices must show a certificate that this one signed."
        ),
    ] = None,
    open_enrolment: Annotated[
        bool,
        typer.Option(
            "--open-enrolment", rich_help_panel=_SECURITY, help="Admit devices without tokens, as on loopback."
        ),
    ] = False,
    evidence: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:ARG]", rich_help_panel=_SECURITY, help="A hook that checks what devices show of themselves."
        ),
    ] = None,
    transmitters: Annotated[
        int,
        typer.Option(
            min=0, max=64, rich_help_panel=_MACHINE, help="Processes that hold devices' calls (0: this one does)."
        ),
    ] = 2,
    hold: Annotated[
        int,
        typer.Option(min=0, max=100_000, rich_help_panel=_MACHINE, help="Calls that may wait on the line, 21 kB each."),
    ] = 4096,
    keep_reports: Annotated[
        bool,
        typer.Option(
            "--keep-reports", rich_help_panel=_MACHINE, help="Spool what devices send until its commit is made."
        ),
    ] = False,
    metrics: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            rich_help_panel=_MACHINE,
            help="Tell figures and health over HTTP here, without encryption: /metrics, /healthz, /readyz. Default: nowhere.",
        ),
    ] = "",
    drain_seconds: Annotated[
        float,
        typer.Option(
            min=0.0, rich_help_panel=_MACHINE, help="After SIGTERM: for how long uploads under way may go on."
        ),
    ] = 20.0,
    log_level: Annotated[
        str,
        typer.Option(
            rich_help_panel=_MACHINE, help="What goes to wire/log.jsonl of the run: debug, info, warning or error."
        ),
    ] = "info",
    sign: SigningKey = None,
    as_json: AsJson = False,
) -> None:
    """Serve a run to real devices over gRPC. What it acknowledges is on disk: killed, it goes on with --resume."""
    from fedfleet.app.pages.report_page import write_report
    from fedfleet.app.runs.served_run import access_options, serve_run
    from fedfleet.app.terminal.text import run_text
    from fedfleet.app.terminal.value_checks import one_of
    from fedfleet.network.server.options import LEVELS, ServeOptions
    from fedfleet.network.server.serve import ServerStopped

    options = ServeOptions(
        address=address, devices=devices or 0, patience=patience, lease=lease, evaluate=evaluate,
        evaluate_seconds=evaluate_seconds, transmitters=transmitters, hold=hold, keep_reports=keep_reports,
        metrics=metrics, drain_seconds=drain_seconds, log_level=one_of("--log-level", log_level, LEVELS), quiet=as_json,
    )  # fmt: skip
    access = access_options(certificate, key, client_ca, evidence, open_enrolment=open_enrolment)
    try:
        command = sys.argv[1:] if sys.argv[1:2] == ["serve"] else ()
        finished_run = serve_run(spec, words or [], out, options, access, resume=resume, key=sign, command=command)
    except ServerStopped as reason:
        raise Interrupted(
            f"{reason}; what it acknowledged is on disk: go on with the same command and --resume"
        ) from None
    write_report(finished_run)
    answer(finished_run.answer(), as_json, lambda a: run_text(a, finished_run.metrics))
    warn(finished_run.metrics["warnings"])
    if not finished_run.metrics["commits"]:
        raise typer.Exit(1)  # as `fedfleet run` does
