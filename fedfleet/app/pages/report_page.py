"""The report of one run: the conclusion in words, then what it rests on, for readers who did not watch it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.fleets.hardness import Hardness, hardness
from fedfleet.app.pages.cost_table import costs
from fedfleet.app.pages.html import key_figures, page, topline, write_page
from fedfleet.app.pages.report.client_participation import participation_section
from fedfleet.app.pages.report.conclusion import abstract, confidence_sentence, lead, report_figures, suggestions, title
from fedfleet.app.pages.report.confusion import classes_section
from fedfleet.app.pages.report.fleet import fleet_section
from fedfleet.app.pages.report.hardness_section import hardness_section
from fedfleet.app.pages.report.learning_curve import learning_section
from fedfleet.app.pages.report.number_words import as_people
from fedfleet.app.pages.report.report_checks import checking_section, privacy_section
from fedfleet.app.pages.report.report_facts import Facts, collect_facts
from fedfleet.app.pages.report.rounds import failed_section, rounds_section
from fedfleet.app.pages.report.stragglers import late_section
from fedfleet.app.pages.time_chart import attribution_figure
from fedfleet.app.runs import FinishedRun, open_run, stored_chance, stored_user_metrics, stored_warnings
from fedfleet.app.runs.explanation import attribute_events
from fedfleet.app.runs.extra_measures import stored_class_measures, stored_privacy
from fedfleet.app.runs.hindsight import Hindsight, hindsight
from fedfleet.app.spec import Spec
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
    measures = summary(events, record, chance=stored_chance(folder)) | (_end_measures(folder) if ended else {})
    measures["warnings"] += stored_warnings(folder, measures["warnings"]) if ended else []
    metrics = {**measures, "digest": digest_of(folder / "run.db"), "ended": ended, "report": str(path)}
    write_page(path, _render_folder(folder, spec, metrics, events, record, ended=ended))
    return metrics


def _end_measures(folder: Path) -> dict[str, Any]:
    """What the end of a run wrote down that its journal does not hold."""
    return stored_user_metrics(folder) | stored_privacy(folder) | stored_class_measures(folder)


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
    samples_held = (
        np.maximum(world_facts.samples[tasks.clients], 1)
        if len(world_facts.samples) > int(tasks.clients.max(initial=-1))
        else np.ones(1)
    )
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
    """The page. `attribution`: where the time went, `world_facts`: what the world knows, `fleet_hardness`: its metrics;
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
        *_where_time_went(f),
        *fleet_section(f),
        *hardness_section(f),
        *classes_section(f),
        *costs(m),
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
    return [
        f"<h1>{escape(title(f))}</h1>",
        f'<p class="lead">{escape(lead(f))}</p>',
        *warned,
        key_figures(report_figures(f)),
        *aside,
    ]


def _where_time_went(f: Facts) -> list[str]:
    """The picture, whose note says it in a sentence."""
    attribution = f.attribution
    return [] if attribution is None else ["<h2>Where the time went</h2>", attribution_figure(attribution, f.people, f.person)]
