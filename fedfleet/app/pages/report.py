"""The report of one run: what happened, for readers who did not watch it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from fedfleet.app.pages.anatomy import anatomy_figures
from fedfleet.app.pages.attribution import attribution_figure
from fedfleet.app.pages.columns import thinned
from fedfleet.app.pages.costs import costs
from fedfleet.app.pages.figures import accuracy_over_time, loss_over_commits, who_took_part
from fedfleet.app.pages.html import figure, page, table, tiles
from fedfleet.app.pages.participation import speed_caption, speed_picture
from fedfleet.app.pages.svg import COLOURS, Series, line_chart
from fedfleet.app.runs import Finished, kept_caveats, kept_chance, opened, own_measures
from fedfleet.app.runs.explaining import attributed_run
from fedfleet.app.runs.privacy import kept_privacy
from fedfleet.app.terminal.text import percent, size, span
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Event, RunBegan
from fedfleet.measure.attribution.ledger import Attribution
from fedfleet.measure.summary import summary
from fedfleet.measure.tasks import Tasks, task_table
from fedfleet.runtime.journal import digest_of, remarks_of


def write_report(done: Finished) -> Path:
    """Write report.html into the folder of a finished run."""
    path = done.out / "report.html"
    remarks = remarks_of(done.out / "run.db")
    path.write_text(render(done.spec.name, done.spec.toml(), done.metrics, done.events, remarks, booked(done.out)))
    return path


def booked(folder: Path) -> Attribution | None:
    """Where the time of a run went; None if no time has passed."""
    found, _ = attributed_run(folder)
    return found if found.virtual_seconds > 0 else None


def report_run(folder: Path) -> dict[str, Any]:
    """Write the report of a run folder, whether or not the run has ended; returns its measures."""
    spec, events, ended = opened(folder)
    if not events:
        raise BadInput(f"the journal in {folder} is empty, so there is nothing to report yet")
    path = folder / "report.html"
    found = summary(events, chance=kept_chance(folder)) | (own_measures(folder) | kept_privacy(folder) if ended else {})
    found["warnings"] += kept_caveats(folder, found["warnings"]) if ended else []
    metrics = {**found, "digest": digest_of(folder / "run.db"), "ended": ended, "report": str(path)}
    try:
        remarks = remarks_of(folder / "run.db")
        path.write_text(render(spec.name, spec.toml(), metrics, events, remarks, booked(folder)))
    except OSError as wrong:
        raise BadInput(f"cannot write {path}: {wrong}") from None
    return metrics


def render(
    name: str,
    spec: str,
    m: dict[str, Any],
    events: list[Event],
    remarks: Sequence[str] = (),
    attribution: Attribution | None = None,
) -> str:
    """The page. `attribution`: where the time went, where it is known."""
    tasks = task_table(events)
    clients = next((e.clients for e in events if isinstance(e, RunBegan)), 0)
    waste = m["wasted"]
    body = [
        f"<h1>{escape(name)}</h1>",
        f'<p class="lead">{m["rounds"]} rounds with {clients:,} clients in {span(m["virtual_seconds"])} of virtual time; '
        f"{m['commits']} of them produced a new model.</p>",
        *(f'<p class="warning">{escape(warning)}</p>' for warning in m["warnings"]),
        tiles([
            ("central test accuracy", percent(m["accuracy"])),
            ("clients' own test data", percent(m["accuracy_clients"])),
            ("10th-percentile client", percent(m["accuracy_bottom10"])),
            ("mean of the worst tenth of clients", percent(m.get("accuracy_worst10_mean"))),
            ("device time wasted", percent(waste["share"])),
            ("sent to devices", size(m["bytes_down"])),
            ("received from devices", size(m["bytes_up"])),
        ]),
        *_private(m.get("privacy")),
        *_failed(m["failed_rounds"]),
        "<h2>Learning</h2>",
        figure(accuracy_over_time([("accuracy", events, COLOURS[0], False)]), "Accuracy of the global model on data that no client holds."),
        figure(loss_over_commits(events), "Loss of the global model on the same data, by commit."),
        "<h2>Who took part</h2>",
        figure(who_took_part(tasks, clients), "How often each client's work entered the model. "
               f"{m['participation']['never']:,} of {clients:,} clients never contributed; Jain's fairness index is {m['participation']['jain']:.2f} (1: everyone contributed equally)."),
        *_speeds(tasks, clients),
        *_rounds(events, tasks),
        *_where_time_went(attribution),
        *_waits(m.get("pace_timelines", {}), m["virtual_seconds"]),
        *costs(m),
        "<h2>All measures</h2>",
        table(["measure", "value"], [[k, _said(v)] for k, v in m.items() if k not in ("digest", "spec_digest", "out", "report", "warnings", "pace_timelines")], words=[1]),
        *_computed(remarks),
        f"<details><summary>The spec, with every default</summary><pre>{escape(spec)}</pre></details>",
        f'<p class="note">Digest <code>{m.get("digest", "")}</code>. The journal <code>run.db</code> beside this page holds every event; '
        "<code>fedfleet replay</code> verifies it.</p>",
    ]  # fmt: skip
    return page(f"FedFleet: {name}", body)


def _where_time_went(found: Attribution | None) -> list[str]:
    """The picture, whose caption says it in a sentence."""
    return [] if found is None else ["<h2>Where the time went</h2>", attribution_figure(found)]


def _waits(timelines: dict[str, list[list[float]]], end: float) -> list[str]:
    """How a policy's patience changed, if it did: steps in minutes of virtual time."""
    lines: list[Series] = []
    for k, (name, line) in enumerate(timelines.items()):
        if len(line) > 1:
            times = [t for at in [*(t for t, _ in line[1:]), end] for t in (at, at)]
            x, y = [line[0][0], *times[:-1]], [s for _, s in line for s in (s, s)]
            lines.append(Series(name, [t / 60.0 for t in x], y, COLOURS[k % len(COLOURS)]))
    if not lines:
        return []
    caption = (
        "How long the policy waits for reports before it asks others: longer after silence, shorter after quiet rounds."
    )
    return [figure(line_chart([thinned(line) for line in lines], "virtual minutes", "seconds"), caption)]


def _speeds(tasks: Tasks, clients: int) -> list[str]:
    """Whether those who are fast take part more, as far as speeds are known."""
    picture = speed_picture(tasks, clients)
    return [figure(picture, speed_caption(tasks, clients))] if picture else []


def _rounds(events: list[Event], tasks: Tasks) -> list[str]:
    """Two rounds, looked at closely."""
    pictures = anatomy_figures(events, tasks)
    return ["<h2>Inside a round</h2>", *pictures] if pictures else []


def _failed(reasons: dict[str, int]) -> list[str]:
    """Why rounds made no model, most frequent first."""
    if not reasons:
        return []
    rows = [[reason, f"{times}"] for reason, times in reasons.items()]
    return ["<h2>Rounds that failed</h2>", table(["reason", "rounds"], rows, words=[0])]


def _private(found: dict[str, Any] | None) -> list[str]:
    """What is claimed about privacy, and whether it is more than a study."""
    if not found:
        return []
    kind = (
        "a study: its noise comes from the seed" if found["noise_from"] == "seed" else "its noise comes from a secret"
    )
    said = f"Epsilon {_said(found['epsilon'])} at delta {_said(found['delta'])} ({found['mechanism']}; {kind}): {found['claim']}."
    return ["<h2>Privacy</h2>", f"<p>{escape(said)}</p>"]


def _computed(remarks: Sequence[str]) -> list[str]:
    """What the journal remarks about how the run was carried out; it has no influence on what happened."""
    if not remarks:
        return []
    items = "".join(f"<li>{escape(remark)}</li>" for remark in remarks)
    return ["<h2>How it was computed</h2>", f"<ul>{items}</ul>"]


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {_said(v)}" for k, v in value.items())
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
