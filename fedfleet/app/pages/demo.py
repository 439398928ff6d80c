"""The demo's report: the three fleets, how hard they are, and what training made of them."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from fedfleet.app.demo.study import CLIENTS, COHORT, DEADLINE, FLEETS, ROUNDS, TARGET, Runs, result_row
from fedfleet.app.pages.demo_methods import methods_page
from fedfleet.app.pages.demo_users import users_page
from fedfleet.app.pages.figures import accuracy_over_time, rounds_timeline, who_took_part
from fedfleet.app.pages.html import figure, page, table
from fedfleet.app.pages.report import write_report
from fedfleet.app.pages.svg import COLOURS
from fedfleet.app.runs import Finished
from fedfleet.app.terminal.text import percent, size, span
from fedfleet.measure.tasks import task_table

Metrics = Mapping[str, Mapping[str, Mapping[str, Any]]]  # by fleet and name, each as `fedfleet measure` answers it


def write_demo(
    out: Path, runs: Runs, metrics: Metrics, users: Mapping[str, Finished], methods: Mapping[str, Finished]
) -> Path:
    """Write the report of every run and the three pages of the demo; returns the first page."""
    for done in (*runs.values(), *users.values(), *methods.values()):
        write_report(done)
    (out / "methods.html").write_text(methods_page(methods))
    (out / "users.html").write_text(users_page(users))
    path = out / "report.html"
    path.write_text(fleets_page(runs, metrics))
    return path


def fleets_page(runs: Runs, metrics: Metrics) -> str:
    """The first page."""
    body = [_introduction(), _hardness(metrics), _results(runs), _fleets(runs), _next_steps()]
    return page("FedFleet demo", body)


def _introduction() -> str:
    deadline = f"{DEADLINE:.0f}"
    fleets = table(["fleet", "what it is like"], [[name, text] for name, (text, _) in FLEETS.items()], words=[1])
    return (
        "<h1>One method, three fleets</h1>"
        '<p class="lead">Federated learning trains one model on many people\'s devices without collecting their data. '
        "How well that works depends on the devices: how fast they are, how often they can be reached, and how similar their data are.</p>"
        f"<p>Here the same method, FedAvg, learns to read handwritten digits from {CLIENTS} clients, {COHORT} at a time, "
        f"for {ROUNDS} rounds, as if the model were a ViT-B/16 of 343 MB. Three fleets, from mild to severe:</p>{fleets}"
        "<p>Each fleet is paced in two ways. <b>Readiness</b> waits until everyone who was asked has reported: nobody is left "
        f"out, and the slowest sets the pace. <b>Deadline</b> closes every round after {deadline} seconds: fast, but slow devices are left out. "
        "Time is virtual: it is computed from each device's link speed, computing speed and reachability, so a simulated day takes seconds.</p>"
    )


def _hardness(metrics: Metrics) -> str:
    head = ["fleet", "devices", "reachability", "both", "devices", "reachability", "both"]
    order = ("DevMC-R", "StatMC-R", "InterMC-R", "DevMC-T", "StatMC-T", "InterMC-T")
    rows = [
        [fleet, *(f"{m[n]['value']:.3f}" if n.endswith("R") else _waiting(m[n]) for n in order)]
        for fleet, m in metrics.items()
    ]
    seeds = max((m[n]["seeds"] for m in metrics.values() for n in order), default=0)
    notes = [f"{fleet}: {note}" for fleet, m in metrics.items() for n in order for note in m[n]["notes"]]
    plain = table(head, rows)
    grouped = plain.replace("<thead>", '<thead><tr><th></th><th colspan="3">with a deadline: work that arrives in time (1 is ideal)</th>'
                            '<th colspan="3">waiting for all: time (lower is easier)</th></tr>', 1)  # fmt: skip
    return (
        "<h2>How hard are they?</h2><p>Before anyone trains, six Monte-Carlo metrics (FLHetBench's DevMC, StatMC and InterMC) say how hard "
        "a fleet is: they simulate only whose work arrives in time, which takes a second. Compare them with the results of training below.</p>"
        + grouped
        + f'<p class="note">In brackets: the 95 % interval of the mean over {seeds} seeds (Student\'s t).</p>'
        + "".join(f'<p class="note">{escape(note)}.</p>' for note in notes)
    )


def _waiting(got: Mapping[str, Any]) -> str:
    """A T metric with its interval."""

    def said(x: float) -> str:
        return f"{x:,.0f}" if x >= 100 else f"{x:.1f}"

    low, high = got["ci95"]
    return f"{said(got['value'])} [{said(low)} to {said(high)}]"


def _results(runs: Runs) -> str:
    lines = [
        (f"{fleet}, {pace}", done.events, COLOURS[list(FLEETS).index(fleet)], pace == "deadline")
        for (fleet, pace), done in runs.items()
    ]
    head = [
        "fleet, pacing",
        "accuracy",
        "10th-percentile client",
        "mean of the worst tenth",
        f"time to {TARGET:.0%}",
        "total time",
        "failed rounds",
        "time wasted",
        "never took part",
        "traffic",
    ]
    rows = []
    for (fleet, pace), done in runs.items():
        r = result_row(fleet, pace, done)
        to = r["seconds_to_target"]
        rows.append([
            f"{fleet}, {pace}", percent(r["accuracy"]), percent(r["accuracy_bottom10"]), percent(r["accuracy_worst10_mean"]), "never" if to is None else span(to),
            span(r["virtual_seconds"]), str(r["rounds_failed"]), percent(r["wasted_share"]), f"{r['never']} of {CLIENTS}", size(r["bytes"]),
        ])  # fmt: skip
    return (
        "<h2>What happened</h2>"
        + table(head, rows)
        + '<p class="note">Accuracy is on data that no client holds; the 10th-percentile client and the worst tenth of clients are judged on their own data; time wasted is device time that entered no model.</p>'
        + figure(accuracy_over_time(lines), "Accuracy against virtual time. Solid: readiness, where a single slow or sleeping phone "
                 "holds everyone up. Dashed: deadline, where rounds are short but slow devices contribute little or nothing.")
    )  # fmt: skip


def _fleets(runs: Runs) -> str:
    parts = [
        "<h2>Who took part, and when</h2>",
        "<p>A model learns only from clients whose work arrives in time. Hover over a bar to see which client it is.</p>",
    ]
    for (fleet, pace), done in runs.items():
        tasks = task_table(done.events)
        parts.append(f"<h3>The {fleet} fleet under {pace}</h3>")
        parts.append(figure(who_took_part(tasks, CLIENTS), "How often each client's work entered the model."))
        parts.append(
            figure(
                rounds_timeline(done.events, tasks),
                "Four rounds from the middle of the run; a row is a client, a bar one task, a dashed line the end of a round.",
            )
        )
    return "".join(parts)


def _next_steps() -> str:
    return (
        '<h2>Six methods, one fleet</h2><p>FedAvg is one method of many: <a href="methods.html">see what five others make of the middle fleet '
        "in the same hours</a>.</p>"
        '<h2>One person, several devices</h2><p>Several devices often belong to one person, and may then share samples: <a href="users.html">see what that '
        "changes</a>.</p>"
        "<h2>Try it yourself</h2><p>Every run above is a folder under <code>runs/</code> beside this page, with its spec, journal, model "
        "and report. Change one thing and run it again:</p>"
        "<pre>fedfleet run demo/runs/severe-deadline/spec.toml pace.seconds=300 --out mine\nfedfleet replay mine\nfedfleet list policies</pre>"
    )
