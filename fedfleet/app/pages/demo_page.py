"""The demo's page: three fleets, six ways to train, several seeds, and what came of it."""

from __future__ import annotations

import shlex
from html import escape
from pathlib import Path

from fedfleet.app.demo import demo_findings, demo_runs, demo_users
from fedfleet.app.demo.demo_jobs import USERS, Done
from fedfleet.app.demo.demo_runs import DEADLINED, WAITING
from fedfleet.app.pages.demo_users_page import users_section
from fedfleet.app.pages.html import keep_page, page, tight, topline
from fedfleet.app.pages.sides.comparison_checks import how_to_check
from fedfleet.app.pages.sides.comparison_words import capital, count, points, spread, whole
from fedfleet.app.pages.sides.curves import accuracy_figure
from fedfleet.app.pages.sides.run_looks import Side, look
from fedfleet.app.pages.sides.run_rows import Head, html_table, runs_table
from fedfleet.app.pages.sides.side_hardness import how_hard
from fedfleet.app.pages.sides.side_participation import who_took_part
from fedfleet.app.pages.sides.side_times import what_it_cost, where_time_went
from fedfleet.app.pages.sides.standings import standings_figure
from fedfleet.app.pages.sides.verdicts import SEED
from fedfleet.app.studies.compare.verdict import sampling_error
from fedfleet.app.terminal.text import listed

PAGE = "index.html"
_COLOURS = {"mild": 1, "middle": 2, "severe": 3}
_PACED = {WAITING: "waiting", DEADLINED: "deadline"}


def write_demo(out: Path, done: Done) -> Path:
    """Write the page into the demo's folder; the reports of its runs are there already."""
    path = out / PAGE
    keep_page(path, demo_page(done, path))
    return path


def demo_page(done: Done, path: Path) -> str:
    """The page; `path` is where it will lie."""
    sides = fleet_sides(done, path)
    paced = [_renamed(side) for side in sides if side.name in _PACED]
    grouped = user_sides(done, path)
    every = [run for runs in done.values() for run in runs]
    hours = f"{demo_runs.HOURS} h"
    body = [
        f"<h1>{escape(tight(demo_findings.headline(done)))}</h1>",
        f'<p class="lead">{escape(tight(demo_findings.paragraph(done)))}</p>',
        _verdicts(done),
        _caveat(done),
        standings_figure(
            sides, f"Accuracy after {hours}: three fleets, six ways to train",
            "A small dot is a seed, the large one their mean. All have the same time, not the same number of rounds.", at=3600.0 * demo_runs.HOURS,
        ),
        accuracy_figure(paced, title="FedAvg against time: waiting for everybody, or a deadline", target=demo_runs.TARGET),
        "<h2>What was tried</h2>", _setting(), _tables(),
        f"<h2>{sum(len(side.looks) for side in sides)} runs</h2>",
        runs_table(sides, target=demo_runs.TARGET),
        '<p class="note">Every seed opens the report of its run, and a name the first of them. FedAvg waiting does 100 rounds, however long they take; '
        f"all others stop after {hours}.</p>",
        who_took_part(paced), where_time_went(paced), how_hard(paced), what_it_cost(sides),
        users_section(done, grouped),
        how_to_check([], {}, [(run.name, run.digest) for run in every], _commands(path.parent)),
    ]  # fmt: skip
    top = topline(f"demo: {len(every)} runs, {count(len(demo_runs.SEEDS), 'seed')} each")
    return page("FedFleet demo", body, top=top, description=demo_findings.headline(done))


def fleet_sides(done: Done, path: Path) -> list[Side]:
    """A side for each way on each fleet, in the fleet's colour; only plain FedAvg is asked where its time went."""
    return [
        Side(way, tuple(look(run.out, path, explained=way in _PACED) for run in done[fleet, way]), _COLOURS[fleet], way != WAITING, fleet)
        for fleet in demo_runs.FLEETS
        for way in demo_runs.WAYS
    ]  # fmt: skip


def _renamed(side: Side) -> Side:
    return Side(_PACED[side.name], side.looks, side.colour, side.thin, side.group)


def user_sides(done: Done, path: Path) -> list[Side]:
    """A side for each method on the devices of people."""
    colours = (2, 4, 5)
    return [
        Side(way, tuple(look(run.out, path, explained=False) for run in done[USERS, way]), colours[i % 3])
        for i, way in enumerate(demo_users.METHODS)
    ]


def _verdicts(done: Done) -> str:
    """For each fleet: who stands highest and how sure that is."""
    items = list[str]()
    for fleet in demo_runs.FLEETS:
        order = demo_findings.ranking(done, fleet)
        better, worse = demo_findings.surely(done, fleet)
        head = f"{fleet}: {listed(better)} surely better" if better else f"{fleet}: none is surely better"
        told = (
            [f"{order[0][0]} stands at {points(order[0][1])}, {order[-1][0]} at {points(order[-1][1])}."]
            if order
            else []
        )
        none = [way for way in demo_runs.WAYS if demo_findings.standing(done[fleet, way]) is None]
        told += [f"With {listed(none)}, not every seed has a model by then."] if none else []
        told += (
            [f"{listed(worse)} {'is' if len(worse) == 1 else 'are'} surely worse than FedAvg with a deadline."]
            if worse
            else []
        )
        out = demo_findings.left_out(done[fleet, DEADLINED])
        told.append(
            f"The deadline leaves out {whole(out)} of {demo_runs.CLIENTS} people."
            if out >= 0.5
            else "The deadline leaves out nobody."
        )
        items.append(
            f'<li class="c{_COLOURS[fleet]}"><b>{escape(capital(head))}</b><span>{escape(tight(" ".join(told)))}</span></li>'
        )
    return f'<ul class="verdicts">{"".join(items)}</ul>'  # fmt: skip


def _caveat(done: Done) -> str:
    """How much seeds alone change, where they change most, and what the test set leaves open."""
    values = {
        key: [float(v) for run in runs if (v := run.metrics["accuracy"]) is not None] for key, runs in done.items()
    }
    fleet, way = max((k for k, v in values.items() if v), key=lambda k: max(values[k]) - min(values[k]))
    tested = min(run.tested for runs in done.values() for run in runs if run.tested)
    error = max(sampling_error(v, tested) for mine in values.values() for v in mine)
    return tight(
        f'<p class="aside"><b>How sure? {capital(count(len(demo_runs.SEEDS), "seed"))} <abbr title="{SEED}">each</abbr>, so only large '
        f"differences count.</b> {escape(way)} on the {fleet} fleet ends at {spread(values[fleet, way])}, by seeds alone. The {tested:,} test "
        f"images leave up to ±{100 * error:.0f} points by themselves. Surely means: clear halfway and at the end alike, "
        "by a paired test over common seeds with Holm's correction, at 5 %; standings at a single hour change with the hour. BiasPrompt+ begins with a backbone that was trained on generated pictures; the others begin from nothing.</p>"
    )


def _setting() -> str:
    return (
        f"<p>Federated learning trains one model on many people's devices without collecting their data. Here {demo_runs.CLIENTS} people's phones learn to read handwritten "
        f"digits, {demo_runs.COHORT} asked at a time, as if the model were a ViT-B/16 of 343 MB. Time is virtual: it is computed from each phone's link, computing speed and "
        "reachability, so that a simulated week takes seconds.</p>"
    )


def _tables() -> str:
    three = [[f'<b class="c{_COLOURS[name]}">{name}</b>', escape(text)] for name, (text, _) in demo_runs.FLEETS.items()]
    six = [[escape(name), escape(way.does)] for name, way in demo_runs.WAYS.items()]
    return html_table([Head("fleet"), Head("what it is like", kind="words")], three) + html_table(
        [Head("way to train"), Head("what it does", kind="words")], six
    )


def _commands(out: Path) -> list[str]:
    seed = demo_runs.SEEDS[0]
    severe, waiting = (shlex.quote(f"{out}/runs/severe-{way}-{seed}") for way in ("deadline", "waiting"))
    spec = shlex.quote(f"{out}/runs/severe-deadline-{seed}/spec.toml")
    return [
        f"fedfleet run {spec} pace.seconds=300 --out mine",
        f"fedfleet compare {severe} mine --out mine.html",
        f"fedfleet explain {waiting}",
        f"fedfleet replay {severe}",
        "fedfleet list algorithms",
    ]
