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
from fedfleet.app.pages.html import keep_page, keys, page, topline
from fedfleet.app.pages.report.client_participation import people_section
from fedfleet.app.pages.report.conclusion import abstract, how_sure, keys_of, lead, title, to_try
from fedfleet.app.pages.report.confusion import classes_section
from fedfleet.app.pages.report.fleet import fleet_section
from fedfleet.app.pages.report.hardness_section import hard_section
from fedfleet.app.pages.report.learning_curve import learning_section
from fedfleet.app.pages.report.number_words import as_people
from fedfleet.app.pages.report.report_checks import checking_section, private_section
from fedfleet.app.pages.report.report_facts import Facts, facts
from fedfleet.app.pages.report.rounds import failed_section, rounds_section
from fedfleet.app.pages.report.stragglers import late_section
from fedfleet.app.pages.time_chart import attribution_figure
from fedfleet.app.runs import Finished, kept_caveats, kept_chance, opened, own_measures
from fedfleet.app.runs.class_measures import kept_classes
from fedfleet.app.runs.explanation import booked
from fedfleet.app.runs.hindsight import Hindsight, hindsight
from fedfleet.app.runs.privacy_facts import kept_privacy
from fedfleet.app.spec import Spec
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import Event
from fedfleet.measure.attribution.causes import Attribution
from fedfleet.measure.summary import summary
from fedfleet.measure.tasks import Tasks, task_table
from fedfleet.store.journal import digest_of, remarks_of

_SIMULATED = ", and from its world, made again from its spec"
_SERVED = ", which its server wrote; what devices say of themselves it has to believe"


def write_report(done: Finished) -> Path:
    """Write report.html into the folder of a finished run."""
    path = done.out / "report.html"
    text = _rendered(done.out, done.spec, done.metrics, done.events, ended=True)
    try:
        keep_page(path, text)
    except BadInput as wrong:
        raise RunFailed(
            f"the run is finished, but {wrong}, then: {shlex.join(['fedfleet', 'report', str(done.out)])}"
        ) from None
    return path


def report_run(folder: Path) -> dict[str, Any]:
    """Write the report of a run folder, whether or not the run has ended; returns its measures."""
    spec, events, ended = opened(folder)
    if not events:
        raise BadInput(f"the journal in {folder} is empty, so there is nothing to report yet")
    path = folder / "report.html"
    found = summary(events, chance=kept_chance(folder)) | (_kept(folder) if ended else {})
    found["warnings"] += kept_caveats(folder, found["warnings"]) if ended else []
    metrics = {**found, "digest": digest_of(folder / "run.db"), "ended": ended, "report": str(path)}
    keep_page(path, _rendered(folder, spec, metrics, events, ended=ended))
    return metrics


def _kept(folder: Path) -> dict[str, Any]:
    """What the end of a run wrote down that its journal does not hold."""
    return own_measures(folder) | kept_privacy(folder) | kept_classes(folder)


def _rendered(folder: Path, spec: Spec, metrics: dict[str, Any], events: list[Event], *, ended: bool) -> str:
    """The page, with what the world of the run knows; a served run has none."""
    found, served = booked(folder, spec, events)
    tasks = task_table(events)
    seen = None if served else hindsight(spec, events, tasks, folder)
    return render(
        folder.resolve().name, spec.toml(), metrics, events, remarks_of(folder / "run.db"), found if found.virtual_seconds > 0 else None,
        seen=seen, hard=None if served or seen is None else measured(spec, seen, tasks, int(metrics["rounds"])),
        ended=ended, served=served,
    )  # fmt: skip


def measured(spec: Spec, seen: Hindsight, tasks: Tasks, rounds: int) -> Hardness:
    """How hard the fleet of a run is, with the work of a client of mean size."""
    held = (
        np.maximum(seen.samples[tasks.clients], 1)
        if len(seen.samples) > int(tasks.clients.max(initial=-1))
        else np.ones(1)
    )
    per_sample = float(np.median(tasks.samples / held)) if len(tasks.samples) else 1.0
    size = None if spec.world["model_bytes"] else float(tasks.bytes_down.max(initial=0.0))  # of the model itself, then
    return hardness(spec, per_sample * float(seen.samples.mean()), rounds, model_bytes=size)


def render(
    name: str,
    spec: str,
    m: dict[str, Any],
    events: list[Event],
    remarks: Sequence[str] = (),
    attribution: Attribution | None = None,
    *,
    seen: Hindsight | None = None,
    hard: Hardness | None = None,
    ended: bool = True,
    served: bool = False,
) -> str:
    """The page. `attribution`: where the time went, `seen`: what the world knows, `hard`: its metrics; each where it is known."""
    f = facts(name, spec, m, events, attribution=attribution, hindsight=seen, hardness=hard, ended=ended, served=served)
    body = [
        *_conclusion(f),
        *learning_section(f),
        *people_section(f),
        *late_section(f),
        *rounds_section(f),
        *_where_time_went(f),
        *fleet_section(f),
        *hard_section(f),
        *classes_section(f),
        *costs(m),
        *failed_section(f),
        *private_section(f),
        *checking_section(f, remarks),
        f"<footer>Every sentence and figure of this page is computed from the journal of the run{_SERVED if served else _SIMULATED}.</footer>",
    ]
    return page(f"FedFleet: {name}", body, top=topline(f"run {name}"), description=abstract(f))


def _conclusion(f: Facts) -> list[str]:
    """What was reached, what it cost, what held it back; key figures; what to try, and how sure all this is."""
    warned = [f'<p class="warning">{escape(as_people(w, f.people, f.person))}</p>' for w in f.metrics["warnings"]]
    hints, sure = to_try(f), how_sure(f)
    said = f"<b>What to try.</b> {escape(' '.join(hints))} " if hints else ""
    doubt = f"<b>How sure?</b> {escape(sure)}" if sure else ""
    aside = [f'<p class="aside">{said}{doubt}</p>'] if said or doubt else []
    return [f"<h1>{escape(title(f))}</h1>", f'<p class="lead">{escape(lead(f))}</p>', *warned, keys(keys_of(f)), *aside]


def _where_time_went(f: Facts) -> list[str]:
    """The picture, whose note says it in a sentence."""
    found = f.attribution
    return [] if found is None else ["<h2>Where the time went</h2>", attribution_figure(found, f.people, f.person)]
