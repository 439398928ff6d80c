"""`fedfleet demo` and `fedfleet dashboard`: what is looked at in a browser."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le

from fedfleet.app.terminal.answers import AS_JSON, Answer, say
from fedfleet.app.terminal.text import percent, span


def demo(*, out: Path = Path("demo")) -> Answer:
    """Train on three fleets, from mild to severe, by six methods over three seeds; writes one HTML page. Two to three minutes.

    Args:
        out: the folder to write; an earlier demo there is replaced.
    """
    from fedfleet.app.demo import demo_findings
    from fedfleet.app.demo.demo_study import run_demo, take_demo_folder
    from fedfleet.app.pages.demo_page import write_demo
    from fedfleet.app.pages.page_writer import write_reports
    from fedfleet.app.studies.grid.study_jobs import LOG, processor_count

    start = time.perf_counter()
    take_demo_folder(out)
    runs_by_way = run_demo(out, quiet=AS_JSON.get())
    training_seconds = time.perf_counter() - start
    write_reports([run.out for runs in runs_by_way.values() for run in runs], workers=processor_count(), log=out / LOG)
    report_seconds = time.perf_counter() - start
    page = write_demo(out, runs_by_way)
    values = {
        "answer": demo_findings.paragraph(runs_by_way),
        "finding": demo_findings.headline(runs_by_way),
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
    return Answer(values, demo_text)


def demo_text(values: dict[str, Any]) -> str:
    """The demo's finding, its answer, a row for each way to train on each fleet, and where its page is."""
    heads = (f"{'fleet':<8} {'way to train':<18} {'after the hours':>16} {'at the end':>11}", "total time", "never took part")
    lines = [values["finding"], "", values["answer"], "", f"{heads[0]} {heads[1]:>11} {heads[2]:>16}"]
    lines += [
        f"{r['fleet']:<8} {r['method']:<18} {percent(r['accuracy_at_equal_time']):>16} {percent(r['accuracy']):>11} "
        f"{span(r['virtual_seconds']):>11} {r['never']:>16.0f}"
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
