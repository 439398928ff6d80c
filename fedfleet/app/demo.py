"""The demo: three fleets from mild to severe, two pacing policies on each, one report that explains itself."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from fedfleet.app.pages.figures import accuracy_over_time, rounds_timeline, who_took_part
from fedfleet.app.pages.html import figure, page, table
from fedfleet.app.pages.svg import COLOURS
from fedfleet.app.progress import progress
from fedfleet.app.report import write_report
from fedfleet.app.runs import Finished, perform
from fedfleet.app.show import percent, size, span
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.measure.learning import time_to_accuracy
from fedfleet.measure.tasks import task_table

CLIENTS, COHORT, ROUNDS, DEADLINE, TARGET = 100, 10, 100, 60.0, 0.8
MARKER = ".fedfleet-demo"

FLEETS: dict[str, tuple[str, dict[str, Any]]] = {
    "mild": (
        "Similar phones on similar links, always reachable, everyone with a like mixture of digits.",
        {
            "devices": {"use": "spread", "link": 0.15, "compute": 0.15},
            "states": {"use": "always_on"},
            "data": {"use": "dirichlet", "alpha": 10.0},
        },
    ),
    "middle": (
        "Links differ by about 10x, phones are reachable half of the day, data differ clearly.",
        {
            "devices": {"use": "spread", "link": 0.6, "compute": 0.5, "jitter": 0.2},
            "states": {"use": "daily", "ready": 0.5, "sessions": 24},
            "data": {"use": "dirichlet", "alpha": 0.5},
        },
    ),
    "severe": (
        "Links differ by about 200x, phones are reachable a tenth of the day in short sessions, most hold few kinds of digits.",
        {
            "devices": {"use": "spread", "link": 1.15, "compute": 0.8, "jitter": 0.4},
            "states": {"use": "daily", "ready": 0.1, "sessions": 24},
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
        "seed": 7,
        "task": {"use": "digits_mlp"},
        "world": {"clients": CLIENTS, "model_bytes": 1e8, **FLEETS[fleet][1]},
        "algorithm": {"use": "fedavg", "lr": 0.2, "epochs": 3},
        "pace": PACES[pace],
        "stop": {"rounds": ROUNDS},
    }


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
    path = out / "report.html"
    path.write_text(render(runs))
    rows = [_row(fleet, pace, done) for (fleet, pace), done in runs.items()]
    return {"runs": rows, "report": str(path), "wall_seconds": time.perf_counter() - start}


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


def render(runs: dict[tuple[str, str], Finished]) -> str:
    """The report."""
    body = [_introduction(), _results(runs), _fleets(runs), _next_steps()]
    return page("FedFleet demo", body)


def _introduction() -> str:
    deadline = f"{DEADLINE:.0f}"
    fleets = table(["fleet", "what it is like"], [[name, text] for name, (text, _) in FLEETS.items()], words=[1])
    return (
        "<h1>One method, three fleets</h1>"
        '<p class="lead">Federated learning trains one model on many people\'s devices without collecting their data. '
        "How well that works depends on the devices: how fast, how often reachable, how alike their data.</p>"
        f"<p>Here the same method, FedAvg, learns to read handwritten digits from {CLIENTS} clients, {COHORT} at a time, "
        f"for {ROUNDS} rounds, as if the model weighed 100 MB. Three fleets, from mild to severe:</p>{fleets}"
        "<p>Each fleet is paced in two ways. <b>Readiness</b> waits until everyone who was asked has reported: nobody is left "
        f"out, and the slowest sets the pace. <b>Deadline</b> closes every round after {deadline} seconds: fast, and deaf to the slow. "
        "Time is virtual: computed from link speed, computing speed and reachability of each device, so that days pass in seconds.</p>"
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
        "<h2>Try it yourself</h2><p>Every run above is a folder under <code>runs/</code> beside this page, with its spec, journal, model "
        "and own report. Change one thing and run it again:</p>"
        "<pre>fedfleet run demo/runs/severe-deadline/spec.toml pace.seconds=300 --out mine\nfedfleet replay mine\nfedfleet list policies</pre>"
    )
