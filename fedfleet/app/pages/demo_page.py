"""The demo's page: what to use on each of three fleets, how sure that is, and what sharing within users changes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np

from fedfleet.app.assemble import assemble
from fedfleet.app.demo import demo_findings, demo_study
from fedfleet.app.demo.demo_findings import TARGET, USER_TARGET
from fedfleet.app.demo.demo_study import ASYNCHRONOUS, HOURS, MINUTES, SECONDS, USERS, WAITING, WITH_DEADLINE, RunsByWay
from fedfleet.app.pages.exchange_page import durations_figure
from fedfleet.app.pages.html import bind_units, topline, write_page
from fedfleet.app.pages.sides import sections
from fedfleet.app.pages.sides.accuracy_figures import accuracy_figure, standings_figure
from fedfleet.app.pages.sides.comparison_words import capitalise, count_words, share_range, whole_percent
from fedfleet.app.pages.sides.page_runs import Side, load_page_run
from fedfleet.app.pages.sides.run_rows import Head, accuracy_cell, html_table, seed_links, time_to
from fedfleet.app.pages.sides.sections import PageFacts, sections_page
from fedfleet.app.pages.sides.verdicts import SEED, side_facts, verdict_item
from fedfleet.app.studies.compare.arms import quote
from fedfleet.app.studies.compare.moments import sampling_error
from fedfleet.app.studies.grid.study_runs import expand_study
from fedfleet.core.edges import NestedPass
from fedfleet.core.parts import Job, Offer
from fedfleet.engine.hierarchy import make_visits
from fedfleet.shuffle import Problem, problem_from, solve

PAGE = "index.html"
_COLOURS = {"mild": 1, "middle": 2, "severe": 3}
_SHORT = {WAITING: "waiting", WITH_DEADLINE: "deadline", ASYNCHRONOUS: "FedBuff"}


def write_demo(out: Path, done: RunsByWay) -> Path:
    """Write the page into the demo's folder; the reports of its runs are there already."""
    path = out / PAGE
    write_page(path, demo_page(done, path))
    return path


def demo_page(done: RunsByWay, path: Path) -> str:
    """The page; `path` is where it will lie."""
    sides = [replace(side, name=_SHORT[side.name]) for side in fleet_sides(done, path)]
    every = [run for runs in done.values() for run in runs]
    facts = PageFacts(
        finding=demo_findings.headline(done),
        lead=demo_findings.paragraph(done),
        sides=sides,
        verdicts=f'<ul class="verdicts">{"".join(_verdict(done, sides, fleet) for fleet in demo_study.FLEETS)}</ul>',
        caveat=_caveat(done),
        target=TARGET,
        digests=[(run.name, run.digest) for run in every],
        commands=_commands(path.parent),
    )
    rivals = [side for side in sides if side.name != _SHORT[WAITING]]
    page_sections = (
        sections.conclusion,
        lambda facts: standings_figure(
            facts.sides,
            f"Accuracy after {HOURS} h: three fleets, three ways to train",
            "A small dot is a seed, the large one their mean.",
            at=SECONDS,
        ),
        lambda _: accuracy_figure(rivals, title="Accuracy against time: a deadline, or no rounds", target=TARGET),
        lambda _: _setting(),
        sections.runs,
        *sections.MEASURED,
        lambda _: users_section(done, user_sides(done, path)),
        sections.checks,
    )
    top = topline(f"demo: {len(every)} runs, {count_words(len(demo_study.STUDY.seeds), 'seed')} a fleet")
    return sections_page("FedFleet demo", facts, page_sections, top=top)


def fleet_sides(done: RunsByWay, path: Path) -> list[Side]:
    """A side for each way on each fleet, in the fleet's colour; thin where late reports are dropped."""
    return [
        Side(way, tuple(load_page_run(run.out, path) for run in done[fleet, way]), _COLOURS[fleet], way == WITH_DEADLINE, fleet)
        for fleet in demo_study.FLEETS
        for way in demo_study.WAYS
    ]


def user_sides(done: RunsByWay, path: Path) -> list[Side]:
    """A side for each method on the devices of people."""
    return [
        Side(way, tuple(load_page_run(run.out, path, explained=False) for run in done[USERS, way]), colour)
        for way, colour in zip(demo_study.METHODS, (2, 4, 5), strict=False)
    ]


def _verdict(done: RunsByWay, sides: Sequence[Side], fleet: str) -> str:
    """What to use on a fleet, and what each way reached and left out."""
    of_fleet = [side for side in sides if side.group == fleet]
    text = " ".join(f"{quote(side.name)}: {side_facts(side, None)}" for side in of_fleet)
    title = demo_findings.recommendation(done, fleet).title
    return verdict_item(_COLOURS[fleet], f"{fleet}: {title[:1].lower()}{title[1:]}", text)


def _caveat(done: RunsByWay) -> str:
    """How much seeds alone change, where they change most, and what the test set leaves open."""
    values = {
        key: [value for run in runs if (value := demo_findings.accuracy_at_hours(run)) is not None]
        for key, runs in done.items()
        if key[0] != USERS
    }
    fleet, way = max((k for k, v in values.items() if v), key=lambda k: max(values[k]) - min(values[k]))
    tested = min((run.tested for runs in done.values() for run in runs if run.tested), default=0)
    error = max((sampling_error(v, tested) for accuracies in values.values() for v in accuracies), default=0.0) if tested else 0.0
    seeds = capitalise(count_words(len(demo_study.STUDY.seeds), "seed"))
    return bind_units(
        f'<p class="aside"><b>How sure? {seeds} <abbr title="{SEED}">each</abbr>.</b> Intervals are those of differences on common seeds, '
        f"at 95 % for all comparisons of a fleet together. {escape(quote(way))} on the {fleet} fleet is at {share_range(values[fleet, way])}, "
        f"depending on the seed alone. The sampling error of the {tested:,} test images is up to ±{100 * error:.0f} points for one run. A run "
        "that has no model yet counts with its first weights.</p>"
    )


def _setting() -> str:
    fleets = [[f'<b class="c{_COLOURS[name]}">{name}</b>', escape(text)] for name, text in demo_study.FLEETS.items()]
    ways = [[escape(name), escape(text)] for name, text in demo_study.WAYS.items()]
    return (
        f"<h2>What was tried</h2><p>Federated learning trains one model on many people's devices without collecting their data. Here {demo_study.CLIENTS} "
        f"phones learn to read handwritten digits, {demo_study.COHORT} of them at work at a time, as if the model were a ViT-B/16 of 343 MB. The question: "
        f"what should the server do about phones that are slow or away? All have {HOURS} h. Time is virtual: it is computed from each phone's link, "
        "computing speed and reachability, so that simulated hours take less than a second.</p>"
        + html_table([Head("fleet"), Head("what it is like", kind="words")], fleets)
        + html_table([Head("way to train"), Head("what it does", kind="words")], ways)
    )


def users_section(done: RunsByWay, sides: Sequence[Side]) -> str:
    """The second question: what changes when devices belong to people, and what one person's exchange looks like."""
    rows = [
        [
            escape(side.name), escape(demo_study.METHODS[side.name]), accuracy_cell([v for one in side.runs if (v := one.last) is not None]),
            escape(time_to(side.runs, USER_TARGET)), seed_links(side.runs),
        ]
        for side in sides
    ]  # fmt: skip
    heads = [
        Head("method"), Head("what it does", kind="words"), Head("accuracy", "The mean over seeds, and from lowest to highest."),
        Head(f"time to {whole_percent(USER_TARGET)}", "The median over seeds, by Kaplan and Meier."), Head("seeds", kind="words"),
    ]  # fmt: skip
    problem = exchange_of_one_user(demo_study.USER_STUDY.seeds[0])
    return "".join([
        "<h2>One person, several devices</h2>",
        f"<p>{escape(bind_units(users_sentence(done)))}</p>",
        html_table(heads, rows),
        accuracy_figure(sides, title=f"Accuracy until {whole_percent(USER_TARGET)}, in {MINUTES} min at most, by what a person's devices share", target=USER_TARGET),
        durations_figure(problem, solve(problem, quick=True).plan, "Exchange of samples in the first round, of the person with most devices"),
    ])  # fmt: skip


def users_sentence(done: RunsByWay) -> str:
    """What was compared, and by how much the best method is faster."""
    result = demo_findings.recommendation(done, USERS)
    times = demo_findings.speedup_text(result)
    faster = f" {quote(result.arm)} reaches {whole_percent(USER_TARGET)} {times}." if times and result.arm else ""
    return (
        f"Phones, watches and tablets often belong to one person, who may let them share data. Here {demo_study.DEVICES} devices, two to five a person, "
        f"learn to read digits until they reach {whole_percent(USER_TARGET)}; their links and processors differ widely.{faster}"
    )


def exchange_of_one_user(seed: int) -> Problem:
    """The exchange of samples of the user with most devices, in the first round."""
    spec = next(cell.spec for cell in expand_study(demo_study.USER_STUDY) if (cell.arm, cell.seed) == ("ShuffleFL", seed))
    setup = assemble(spec)
    local_pass = setup.plan.algorithm.local(0, {})
    assert isinstance(local_pass, NestedPass)
    user = int(np.argmax(np.bincount(local_pass.fleet.users.user_of)))
    (visit,) = make_visits([Job(0, user, 0, seed, Offer({}), local_pass, setup.world.data.shard(user, "train", 0))])
    data = setup.task.dataset
    return problem_from({
        "counts": np.stack([np.bincount(data.y[rows], minlength=data.classes) for rows in visit.rows]),
        "seconds_per_sample": visit.abilities.seconds_per_sample,
        "up_bps": visit.abilities.up_bps,
        "down_bps": visit.abilities.down_bps,
        "bits_per_sample": 8 * data.x[:1].nbytes,
        "epochs": 5,
        "alpha": "auto",
    })  # fmt: skip


def _commands(out: Path) -> list[str]:
    seed = demo_study.STUDY.seeds[0]
    severe, waiting = (shlex.quote(f"{out}/runs/{name}-{seed}") for name in ("severe-deadline", "mild-waiting"))
    spec = shlex.quote(f"{out}/runs/severe-deadline-{seed}/spec.toml")
    return [
        f"fedfleet run {spec} pace.seconds=300 --out mine",
        f"fedfleet compare {severe} mine --out mine.html",
        f"fedfleet explain {waiting}",
        f"fedfleet replay {severe}",
        "fedfleet list algorithms",
    ]
