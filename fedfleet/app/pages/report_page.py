"""The report of one run: the conclusion in words, then what it rests on, for readers who did not watch it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.fleets.hardness import Hardness, hardness
from fedfleet.app.pages.hardness_section import hardness_section
from fedfleet.app.pages.html import key_figures, page, table, topline, write_page
from fedfleet.app.pages.report.client_participation import participation_section
from fedfleet.app.pages.report.conclusion import abstract, confidence_sentence, lead, report_figures, suggestions, title
from fedfleet.app.pages.report.confusion import classes_section
from fedfleet.app.pages.report.fleet import fleet_section
from fedfleet.app.pages.report.learning_curve import learning_section
from fedfleet.app.pages.report.number_words import as_people
from fedfleet.app.pages.report.predictions import predictions_section
from fedfleet.app.pages.report.report_checks import checking_section, privacy_section
from fedfleet.app.pages.report.report_facts import Facts, collect_facts
from fedfleet.app.pages.report.rounds import failed_section, rounds_section
from fedfleet.app.pages.report.stragglers import late_section
from fedfleet.app.pages.sides.comparison_words import time_text
from fedfleet.app.pages.time_chart import attribution_figure
from fedfleet.app.pages.time_units import plain_time
from fedfleet.app.runs import FinishedRun, open_run, stored_first_weights, stored_score, stored_user_metrics, stored_warnings
from fedfleet.app.runs.explanation import attribute_events
from fedfleet.app.runs.extra_measures import stored_class_measures, stored_privacy
from fedfleet.app.runs.hindsight import Hindsight, hindsight
from fedfleet.app.spec import Spec
from fedfleet.app.terminal.text import percent, size
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import Event
from fedfleet.measure.attribution.causes import Attribution
from fedfleet.measure.run_record import RunRecord, read_record
from fedfleet.measure.summary import summary
from fedfleet.measure.tasks import Tasks
from fedfleet.store.journal import digest_of, remarks_of

_SIMULATED = ", and from its world, made again from its spec"
_SERVED = ", which its server wrote; what devices say of themselves it has to believe"


def write_report(run: FinishedRun) -> Path:
    """Write report.html into the folder of a finished run."""
    path = run.out / "report.html"
    text = _render_folder(run.out, run.spec, run.metrics, run.events, read_record(run.events), ended=True)
    try:
        write_page(path, text)
    except BadInput as error:
        raise RunFailed(
            f"the run is finished, but its report is missing: {error}; then run: {shlex.join(['fedfleet', 'report', str(run.out)])}"
        ) from None
    return path


def report_run(folder: Path) -> dict[str, Any]:
    """Write the report of a run folder, whether or not the run has ended; returns its measures."""
    spec, events, ended = open_run(folder)
    if not events:
        raise BadInput(f"the journal in {folder} is empty, so there is nothing to report yet")
    path = folder / "report.html"
    record = read_record(events)
    measures = summary(events, record, score=stored_score(folder))
    if ended:  # what the end of a run wrote down that its journal does not hold
        measures |= stored_user_metrics(folder) | stored_privacy(folder) | stored_class_measures(folder)
        measures |= stored_first_weights(folder)
        measures["warnings"] += stored_warnings(folder, measures["warnings"])
    metrics = {**measures, "digest": digest_of(folder / "run.db"), "ended": ended, "report": str(path)}
    write_page(path, _render_folder(folder, spec, metrics, events, record, ended=ended))
    return metrics


def _render_folder(
    folder: Path, spec: Spec, metrics: dict[str, Any], events: list[Event], record: RunRecord, *, ended: bool
) -> str:
    """The page, with what the world of the run knows; a served run has none."""
    attribution, served = attribute_events(folder, spec, events)
    tasks = record.tasks.table()
    world_facts = None if served else hindsight(spec, events, tasks, folder)
    return render(
        folder.resolve().name, spec.toml(), metrics, events, remarks_of(folder / "run.db"), attribution if attribution.virtual_seconds > 0 else None,
        world_facts=world_facts, fleet_hardness=None if served or world_facts is None else measure_hardness(spec, world_facts, tasks, int(metrics["rounds"])),
        record=record, ended=ended, served=served,
    )  # fmt: skip


def measure_hardness(spec: Spec, world_facts: Hindsight, tasks: Tasks, rounds: int) -> Hardness:
    """How hard the fleet of a run is, with the work of a client of mean size."""
    known = len(world_facts.samples) > int(tasks.clients.max(initial=-1))
    samples_held = np.maximum(world_facts.samples[tasks.clients], 1) if known else np.ones(1)
    per_sample = float(np.median(tasks.samples / samples_held)) if len(tasks.samples) else 1.0
    size = None if spec.world["model_bytes"] else float(tasks.bytes_down.max(initial=0.0))  # of the model itself, then
    return hardness(spec, per_sample * float(world_facts.samples.mean()), rounds, model_bytes=size)


def render(
    name: str,
    spec: str,
    m: dict[str, Any],
    events: list[Event],
    remarks: Sequence[str] = (),
    attribution: Attribution | None = None,
    *,
    record: RunRecord | None = None,
    world_facts: Hindsight | None = None,
    fleet_hardness: Hardness | None = None,
    ended: bool = True,
    served: bool = False,
) -> str:
    """The page. `attribution`: where the time went, `world_facts`: what the world knows, `hardness_section`: its metrics;
    each where it is known."""
    f = collect_facts(
        name,
        spec,
        m,
        events,
        record=record,
        attribution=attribution,
        hindsight=world_facts,
        hardness=fleet_hardness,
        ended=ended,
        served=served,
    )
    body = [
        *_conclusion(f),
        *learning_section(f),
        *participation_section(f),
        *late_section(f),
        *rounds_section(f),
        *([] if attribution is None else ["<h2>Where the time went</h2>", attribution_figure(attribution, f.people, f.person)]),
        *fleet_section(f),
        *hardness_section(f),
        *classes_section(f),
        *predictions_section(f),
        *cost_section(m),
        *failed_section(f),
        *privacy_section(f),
        *checking_section(f, remarks),
        f"<footer>Every sentence and figure of this page is computed from the journal of the run{_SERVED if served else _SIMULATED}.</footer>",
    ]
    return page(f"FedFleet: {name}", body, top=topline(f"run {name}"), description=abstract(f))


def _conclusion(f: Facts) -> list[str]:
    """What was reached, what it cost, what held it back; key figures; what to try, and how sure all this is."""
    warned = [f'<p class="warning">{escape(as_people(w, f.people, f.person))}</p>' for w in f.metrics["warnings"]]
    hints, sure = suggestions(f), confidence_sentence(f)
    advice = f"<b>What to try.</b> {escape(' '.join(hints))} " if hints else ""
    doubt = f"<b>How sure?</b> {escape(sure)}" if sure else ""
    aside = [f'<p class="aside">{advice}{doubt}</p>'] if advice or doubt else []
    head = [f"<h1>{escape(title(f))}</h1>", f'<p class="lead">{escape(lead(f))}</p>']
    return [*head, *warned, key_figures(report_figures(f)), *aside]


Row = Mapping[str, float]
_NEGLIGIBLE = 0.0005  # of all: less is not worth a word
_FATES = {
    "folded": "used", "rejected": "refused", "wasted": "in time, for a round that failed", "lost": "lost", "dropped": "too late, given up",
}  # fmt: skip


def energy(joules: float) -> str:
    """Energy for people.

    >>> energy(40), energy(52_000), energy(7.2e6)
    ('40 J', '52 kJ', '2 kWh')
    """
    if joules >= 3.6e6:
        return f"{joules / 3.6e6:,.3g} kWh"
    return f"{joules / 1000:,.3g} kJ" if joules >= 1000 else f"{joules:,.3g} J"


# (heading, measures that are added up, how the sum is formatted)
_COLUMNS: tuple[tuple[str, tuple[str, ...], Callable[[float], str]], ...] = (
    ("tasks", ("tasks", "asked"), lambda n: f"{n:,.0f}"),
    ("working", ("worked_seconds",), lambda s: time_text(s) if s >= 1 else plain_time(s)),
    ("out of reach", ("waited_seconds",), lambda s: time_text(s) if s >= 1 else plain_time(s)),
    ("moved", ("bytes_down", "bytes_up"), size),
    ("energy", ("joules",), energy),
)


def cost_section(m: Mapping[str, Any]) -> list[str]:
    """The section by fate of the work: `fates`, `probes` and `energy` of the measures, each where it is known."""
    fates: Mapping[str, Row] = m.get("fates") or {}
    rows = {_FATES.get(fate, fate): row for fate, row in fates.items() if row.get("tasks")}
    probes: Row = m.get("probes") or {}
    if probes.get("asked"):
        rows["probes, before choosing"] = probes
    if not rows:
        return []
    columns = [(head, keys, format_value) for head, keys, format_value in _COLUMNS if any(_sum(row, keys) for row in rows.values())]
    lines = [[name, *(say(_sum(row, keys)) for _, keys, say in columns)] for name, row in rows.items()]
    total_row = ["all", *(say(sum(_sum(row, keys) for row in rows.values())) for _, keys, say in columns)]
    every = [*lines, total_row] if len(lines) > 1 else lines
    return [
        "<h2>Cost</h2>",
        *(f"<p>{escape(sentence)}</p>" for sentence in [_waste_sentence(m, rows)] if sentence),
        table(["what became of the work", *(head for head, _, _ in columns)], every),
    ]


def _sum(row: Row, keys: tuple[str, ...]) -> float:
    return sum(row.get(key) or 0.0 for key in keys)


def _waste_sentence(m: Mapping[str, Any], rows: Mapping[str, Row]) -> str:
    """How much was spent on updates that entered no model, and of how many tasks the cost is unknown."""
    moved = sum(_sum(row, ("bytes_down", "bytes_up")) for row in rows.values())
    energy_use: Mapping[str, Any] = m.get("energy") or {}
    wasted = sum(m.get("bytes_wasted", {}).values())
    lost = [(wasted / moved, "of the bytes")] if moved and "bytes_wasted" in m else []
    if energy_use.get("joules"):
        lost.append((1 - energy_use["useful"] / energy_use["joules"], "of the energy"))
    much = any(part >= _NEGLIGIBLE for part, _ in lost)
    parts = [f"{percent(part) if part >= _NEGLIGIBLE else 'under 0.1 %'} {resource}" for part, resource in lost if much]
    grams = f" The energy stands for {energy_use['grams']:,.3g} g of carbon dioxide." if energy_use.get("grams") is not None else ""
    unknown = sum(int(row.get("unknown") or 0) for row in rows.values())
    unknown_note = f" The cost of {unknown:,} tasks is not known, and not in this table." if unknown else ""
    return (f"Wasted (updates not used): {' and '.join(parts)}." if parts else "") + grams + unknown_note
