"""`fedfleet demo` and `fedfleet dashboard`: what is looked at in a browser."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedfleet.app.terminal.answers import AS_JSON, Answer, say
from fedfleet.app.terminal.text import percent, span
from fedfleet.core.bounds import Ge, Le

if TYPE_CHECKING:
    from fedfleet.executors.worker_pool import WorkerPool

_LOG = "workers.log"  # in the folder of the demo
_DEMO_WORK = "fedfleet.app.pages.page_writer:perform_or_write"


def demo(*, out: Path = Path("demo")) -> Answer:
    """Answer "what should I deploy?" for three fleets, from mild to severe; writes one HTML page. About a minute on two cores.

    Args:
        out: the folder to write; an earlier demo there is replaced.
    """
    from fedfleet.app.demo.demo_folder import take_demo_folder
    from fedfleet.executors.worker_pool import open_workers, processor_count

    start, count = time.perf_counter(), processor_count()
    take_demo_folder(out)
    # The workers start at once, so that they load their libraries while this process loads its own.
    with open_workers(_DEMO_WORK, count, log=out / _LOG) if count > 1 else nullcontext() as pool:
        return Answer(_perform_demo(out, count, pool, start), demo_text)


def _perform_demo(out: Path, count: int, pool: WorkerPool | None, start: float) -> dict[str, Any]:
    from fedfleet.app.demo import demo_findings
    from fedfleet.app.demo.demo_study import RunsByWay, run_demo
    from fedfleet.app.pages.demo_page import write_demo
    from fedfleet.app.pages.page_writer import write_reports
    from fedfleet.app.studies.compare.comparison import json_value
    from fedfleet.app.studies.grid.study_jobs import WorkerSettings

    def print_finding(fleet: str, runs_by_way: RunsByWay) -> None:
        if not AS_JSON.get():
            typer.echo(demo_findings.fleet_finding(runs_by_way, fleet))

    runs_by_way = run_demo(out, WorkerSettings(count, pool=pool), on_fleet=print_finding, quiet=AS_JSON.get())
    training_seconds = time.perf_counter() - start
    write_reports([run.out for runs in runs_by_way.values() for run in runs], pool=pool, log=out / _LOG)
    report_seconds = time.perf_counter() - start
    page = write_demo(out, runs_by_way)
    return {
        "answer": demo_findings.paragraph(runs_by_way),
        "finding": demo_findings.headline(runs_by_way),
        "recommendations": json_value(demo_findings.recommendation_rows(runs_by_way)),
        "runs": demo_findings.result_rows(runs_by_way),
        "ways": demo_findings.way_rows(runs_by_way),
        "report": str(page),
        "wall_seconds": time.perf_counter() - start,
        "wall": {
            "runs": training_seconds,
            "reports": report_seconds - training_seconds,
            "page": time.perf_counter() - start - report_seconds,
        },
    }


def demo_text(values: dict[str, Any]) -> str:
    """A row for each way to train on each fleet, and where the page is: the findings were printed as they came."""
    lines = ["", f"{'fleet':<8} {'way to train':<18} {'accuracy':>9} {'virtual time':>13} {'never took part':>16}"]
    lines += [
        f"{r['fleet']:<8} {r['method']:<18} {percent(r['accuracy']):>9} {span(r['virtual_seconds']):>13} {r['never']:>16.0f}"
        for r in values["ways"]
    ]
    return "\n".join([*lines, "", f"page: {values['report']} ({values['wall_seconds']:.0f} s)"])


def dashboard(
    runs: Path = Path("runs"),
    *,
    port: Annotated[int, Ge(0), Le(65535)] = 8765,
    host: str = "127.0.0.1",
    name: list[str] | None = None,
    token: str | None = None,
    token_file: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    on_ready: Callable[[Answer], None] = print,
) -> None:
    """Watch, start, stop and compare runs in a browser, on this machine only unless told otherwise.

    Args:
        runs: the folder of the runs, or one run.
        port: where to listen; 0: any port that is free.
        host: the address to listen on; others need a token and TLS.
        name: a name by which browsers reach this machine, for example fleet.local.
        token: what browsers must show to read; also --token-file.
        token_file: a file that holds the token.
        certificate: the certificate (PEM): TLS.
        key: the private key of --certificate (PEM).
        on_ready: called with the address once browsers are answered.
    """
    from fedfleet.app.dashboard.auth import Access, check_access
    from fedfleet.app.dashboard.run_watcher import folder_of_runs
    from fedfleet.app.dashboard.web_server import bind_socket, certificate_from, serve, token_from

    read_token, tls = token_from(token, token_file), certificate_from(certificate, key)
    check_access(host, read_token=read_token, tls=tls is not None)
    root = folder_of_runs(runs)
    listener = bind_socket(host, port)
    access = Access(host, listener.getsockname()[1], tuple(name or ()), read_token, tls is not None)
    values = {"address": access.address, "runs": str(root)}
    text = f"{root}: open {access.address} (Ctrl-C closes it)"
    serve(root, access, listener, tls, lambda: on_ready(Answer(values, text)))
    say("the dashboard is closed; the runs that it started continue")
