"""The demo: three fleets from mild to severe, two pacing policies on each, one report that explains itself."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.demo_users import run_users
from fedfleet.app.fleets import sample_devices, sample_states
from fedfleet.app.pages.figures import accuracy_over_time, rounds_timeline, who_took_part
from fedfleet.app.pages.html import figure, page, table
from fedfleet.app.pages.svg import COLOURS
from fedfleet.app.progress import progress
from fedfleet.app.report import write_report
from fedfleet.app.runs import Finished, perform
from fedfleet.app.show import percent, size, span
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import DeviceTable, StateTable
from fedfleet.core.intervals import traces
from fedfleet.measure.learning import time_to_accuracy
from fedfleet.measure.montecarlo.metrics import NAMES, measure
from fedfleet.measure.montecarlo.settings import Settings
from fedfleet.measure.tasks import task_table

CLIENTS, COHORT, ROUNDS, DEADLINE, TARGET, SEED = 100, 10, 100, 120.0, 0.8, 7
MODEL_BYTES = 343_200_776  # as if ViT-B/16 travelled
MARKER = ".fedfleet-demo"

FLEETS: dict[str, tuple[str, dict[str, Any]]] = {
    "mild": (
        "Similar phones on similar links, always reachable, everyone with a like mixture of digits.",
        {
            "devices": {"use": "dpgmm", "sigma": 0.1, "mean_mbps": 60.0},
            "states": {"use": "always_on"},
            "data": {"use": "dirichlet", "alpha": 10.0},
        },
    ),
    "middle": (
        "Links differ severalfold, phones are reachable a quarter of the day, data differ clearly.",
        {
            "devices": {"use": "dpgmm", "sigma": 0.7, "mean_mbps": 60.0},
            "states": {"use": "dpcsm", "alpha": 100.0, "start_rank": 0},
            "data": {"use": "dirichlet", "alpha": 0.5},
        },
    ),
    "severe": (
        "Some links hardly move at all, phones are reachable a tenth of the day, most hold few kinds of digits.",
        {
            "devices": {"use": "dpgmm", "sigma": 1.4, "mean_mbps": 60.0},
            "states": {"use": "dpcsm", "alpha": 100.0, "start_rank": 150},
            "data": {"use": "dirichlet", "alpha": 0.1},
        },
    ),
}
PACES: dict[str, dict[str, Any]] = {
    "readiness": {"use": "readiness", "cohort": COHORT},
    "deadline": {"use": "deadline", "cohort": COHORT, "seconds": DEADLINE},
}


def demo_spec(fleet: str, pace: str) -> dict[str, Any]:
    """The spec of one of the demo's runs."""
    return {
        "seed": SEED,
        "task": {"use": "digits_mlp"},
        "world": {"clients": CLIENTS, "model_bytes": MODEL_BYTES, **FLEETS[fleet][1]},
        "algorithm": {"use": "fedavg", "lr": 0.2, "epochs": 3},
        "pace": PACES[pace],
        "stop": {"rounds": ROUNDS},
    }


def fleet_tables(fleet: str) -> tuple[DeviceTable, StateTable]:
    """The very devices and states that the runs meet, for the metrics."""
    spec = resolve(demo_spec(fleet, "deadline")).world
    d, s = spec["devices"], spec["states"]
    devices = sample_devices(
        "dpgmm", d["base"], CLIENTS, seed=SEED, semantics=d["semantics"], kinds=d["kinds"], sigma=d["sigma"],
        mean_mbps=d["mean_mbps"], alpha=d["alpha"], distribution="homo",
    )  # fmt: skip
    if s["use"] == "always_on":
        return devices, always_ready(CLIENTS)
    states = sample_states(
        "dpcsm", s["base"], CLIENTS, seed=SEED, semantics=s["semantics"], alpha=s["alpha"], start_rank=s["start_rank"],
        deadline=s["deadline"], k=s["clients_k"], rounds=s["rounds"], scores=None,
    )  # fmt: skip
    return devices, states


def always_ready(clients: int) -> StateTable:
    """States that are ready all day."""
    day, n = np.full(clients, 86400.0), np.arange(clients + 1)
    return StateTable(np.array(["always"] * clients), traces(np.zeros(clients), day, n, np.zeros(clients), day))


def fleet_metrics(fleet: str) -> dict[str, float]:
    """The six metrics of a fleet, with the demo's cohort, deadline and readiness."""
    asked = Settings(k=COHORT, rounds=1000, trips=2000, deadline=DEADLINE, ready_share=1.0)
    tables = fleet_tables(fleet)
    return {name: measure(name, asked, *tables).value for name in NAMES}


def run_demo(out: Path, *, quiet: bool = False) -> dict[str, Any]:
    """Run the study into a folder and write its report."""
    start = time.perf_counter()
    _take(out)
    runs: dict[tuple[str, str], Finished] = {}
    for fleet in FLEETS:
        for pace in PACES:
            spec = resolve(demo_spec(fleet, pace), f"{fleet}-{pace}")
            with progress(ROUNDS, quiet=quiet, label=f"{fleet} fleet, {pace}") as watch:
                runs[fleet, pace] = perform(spec, out / "runs" / spec.name, watch=watch)
            write_report(runs[fleet, pace])
    metrics = {fleet: fleet_metrics(fleet) for fleet in FLEETS}
    users = run_users(out, quiet=quiet)
    path = out / "report.html"
    path.write_text(render(runs, metrics))
    rows = [_row(fleet, pace, done) for (fleet, pace), done in runs.items()]
    return {
        "runs": rows,
        "users": users,
        "metrics": metrics,
        "report": str(path),
        "wall_seconds": time.perf_counter() - start,
    }


def _take(out: Path) -> None:
    """An earlier demo is replaced; anything else is left alone."""
    try:
        if out.is_dir() and any(out.iterdir()):
            if not (out / MARKER).is_file():
                raise BadInput(f"{out} exists and is not a demo; name another folder with --out")
            shutil.rmtree(out)
        out.mkdir(parents=True, exist_ok=True)
        (out / MARKER).write_text("made by fedfleet demo; replaced by the next one\n")
    except OSError as wrong:
        raise BadInput(f"the folder {out} cannot be written: {wrong}; name another with --out") from None


def _row(fleet: str, pace: str, done: Finished) -> dict[str, Any]:
    m = done.metrics
    return {
        "fleet": fleet, "pace": pace, "accuracy": m["accuracy"], "accuracy_bottom10": m["accuracy_bottom10"],
        "seconds_to_target": time_to_accuracy(done.events, TARGET), "virtual_seconds": m["virtual_seconds"],
        "rounds_failed": m["rounds_failed"], "never": m["participation"]["never"], "wasted_share": m["wasted"]["share"],
        "bytes": m["bytes_down"] + m["bytes_up"], "digest": m["digest"],
    }  # fmt: skip


def render(runs: dict[tuple[str, str], Finished], metrics: dict[str, dict[str, float]]) -> str:
    """The report."""
    body = [_introduction(), _hardness(metrics), _results(runs), _fleets(runs), _next_steps()]
    return page("FedFleet demo", body)


def _introduction() -> str:
    deadline = f"{DEADLINE:.0f}"
    fleets = table(["fleet", "what it is like"], [[name, text] for name, (text, _) in FLEETS.items()], words=[1])
    return (
        "<h1>One method, three fleets</h1>"
        '<p class="lead">Federated learning trains one model on many people\'s devices without collecting their data. '
        "How well that works depends on the devices: how fast, how often reachable, how alike their data.</p>"
        f"<p>Here the same method, FedAvg, learns to read handwritten digits from {CLIENTS} clients, {COHORT} at a time, "
        f"for {ROUNDS} rounds, as if the model were a ViT-B/16 of 343 MB. Three fleets, from mild to severe:</p>{fleets}"
        "<p>Each fleet is paced in two ways. <b>Readiness</b> waits until everyone who was asked has reported: nobody is left "
        f"out, and the slowest sets the pace. <b>Deadline</b> closes every round after {deadline} seconds: fast, and deaf to the slow. "
        "Time is virtual: computed from link speed, computing speed and reachability of each device, so that days pass in seconds.</p>"
    )


def _hardness(metrics: dict[str, dict[str, float]]) -> str:
    head = ["fleet", "devices", "reachability", "both", "devices", "reachability", "both"]
    order = ("DevMC-R", "StatMC-R", "InterMC-R", "DevMC-T", "StatMC-T", "InterMC-T")
    rows = [
        [
            fleet,
            *(f"{m[n]:.3f}" if n.endswith("R") else f"{m[n]:,.0f}" if m[n] >= 100 else f"{m[n]:.1f}" for n in order),
        ]
        for fleet, m in metrics.items()
    ]
    plain = table(head, rows)
    grouped = plain.replace("<thead>", '<thead><tr><th></th><th colspan="3">with a deadline: work that gets through (1 is ideal)</th>'
                            '<th colspan="3">waiting for all: time (lower is easier)</th></tr>', 1)  # fmt: skip
    return (
        "<h2>How hard are they?</h2><p>Before anyone trains, six Monte-Carlo metrics (FLHetBench's DevMC, StatMC and InterMC) say how hard "
        "a fleet is: they simulate only who gets through, in a second. Read them first, then see what training made of it.</p>"
        + grouped
    )


def _results(runs: dict[tuple[str, str], Finished]) -> str:
    lines = [
        (f"{fleet}, {pace}", done.events, COLOURS[list(FLEETS).index(fleet)], pace == "deadline")
        for (fleet, pace), done in runs.items()
    ]
    head = [
        "fleet, pacing",
        "accuracy",
        "worst tenth",
        f"time to {TARGET:.0%}",
        "total time",
        "failed rounds",
        "time wasted",
        "never took part",
        "traffic",
    ]
    rows = []
    for (fleet, pace), done in runs.items():
        r = _row(fleet, pace, done)
        to = r["seconds_to_target"]
        rows.append([
            f"{fleet}, {pace}", percent(r["accuracy"]), percent(r["accuracy_bottom10"]), "never" if to is None else span(to),
            span(r["virtual_seconds"]), f"{r['rounds_failed']} of {ROUNDS}", percent(r["wasted_share"]), f"{r['never']} of {CLIENTS}", size(r["bytes"]),
        ])  # fmt: skip
    return (
        "<h2>What happened</h2>"
        + table(head, rows)
        + '<p class="note">Accuracy is on data that no client holds; the worst tenth is the 10th-percentile client on its own data; time wasted is device time that entered no model.</p>'
        + figure(accuracy_over_time(lines), "Accuracy against virtual time. Solid: readiness, where a single slow or sleeping phone "
                 "holds everyone up. Dashed: deadline, where rounds stay short and what is learnt in them does not stay the same.")
    )  # fmt: skip


def _fleets(runs: dict[tuple[str, str], Finished]) -> str:
    parts = [
        "<h2>Who took part, and when</h2>",
        "<p>A model learns from those who make it in time. Point at a bar to see whose it is.</p>",
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
        '<h2>One person, several devices</h2><p>Devices often belong to one person, and may then share samples: <a href="users.html">see what that '
        "changes</a>.</p>"
        "<h2>Try it yourself</h2><p>Every run above is a folder under <code>runs/</code> beside this page, with its spec, journal, model "
        "and own report. Change one thing and run it again:</p>"
        "<pre>fedfleet run demo/runs/severe-deadline/spec.toml pace.seconds=300 --out mine\nfedfleet replay mine\nfedfleet list policies</pre>"
    )
