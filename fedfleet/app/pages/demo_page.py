"""The demo's page: three fleets, six ways to train, several seeds, and what came of it."""

from __future__ import annotations

import shlex
from html import escape
from pathlib import Path

from fedfleet.app.demo import demo_findings, demo_runs, demo_users
from fedfleet.app.demo.demo_jobs import USERS, RunsByWay
from fedfleet.app.demo.demo_runs import WAITING, WITH_DEADLINE
from fedfleet.app.pages.demo_users_page import users_section
from fedfleet.app.pages.html import bind_units, page, topline, write_page
from fedfleet.app.pages.sides.comparison_checks import check_section
from fedfleet.app.pages.sides.comparison_words import capitalise, count_words, mean_count, share_range, whole_percent
from fedfleet.app.pages.sides.curves import accuracy_figure
from fedfleet.app.pages.sides.run_looks import Side, load_page_run
from fedfleet.app.pages.sides.run_rows import Head, html_table, runs_table
from fedfleet.app.pages.sides.side_hardness import hardness_section
from fedfleet.app.pages.sides.side_participation import participation_section
from fedfleet.app.pages.sides.side_times import cost_section, time_section
from fedfleet.app.pages.sides.standings import standings_figure
from fedfleet.app.pages.sides.verdicts import SEED
from fedfleet.app.studies.compare.verdict import sampling_error
from fedfleet.app.terminal.text import join_words

PAGE = "index.html"
_COLOURS = {"mild": 1, "middle": 2, "severe": 3}
_PACED = {WAITING: "waiting", WITH_DEADLINE: "deadline"}


def write_demo(out: Path, done: RunsByWay) -> Path:
    """Write the page into the demo's folder; the reports of its runs are there already."""
    path = out / PAGE
    write_page(path, demo_page(done, path))
    return path


def demo_page(done: RunsByWay, path: Path) -> str:
    """The page; `path` is where it will lie."""
    sides = fleet_sides(done, path)
    paced = [_rename_side(side) for side in sides if side.name in _PACED]
    grouped = user_sides(done, path)
    every = [run for runs in done.values() for run in runs]
    hours = f"{demo_runs.HOURS} h"
    body = [
        f"<h1>{escape(bind_units(demo_findings.headline(done)))}</h1>",
        f'<p class="lead">{escape(bind_units(demo_findings.paragraph(done)))}</p>',
        _verdicts(done),
        _caveat(done),
        standings_figure(
            sides, f"Accuracy after {hours}: three fleets, six ways to train",
            "A small dot is a seed, the large one their mean. All have the same time, not the same number of rounds.", at=3600.0 * demo_runs.HOURS,
        ),
        accuracy_figure(paced, title="FedAvg against time: waiting for everybody, or a deadline", target=demo_runs.TARGET),
        "<h2>What was tried</h2>", _setting(), _tables(),
        f"<h2>{sum(len(side.runs) for side in sides)} runs</h2>",
        runs_table(sides, target=demo_runs.TARGET),
        '<p class="note">Every seed opens the report of its run, and a name the first of them. FedAvg waiting does 100 rounds, however long they take; '
        f"all others stop after {hours}.</p>",
        participation_section(paced), time_section(paced), hardness_section(paced), cost_section(sides),
        users_section(done, grouped),
        check_section([], {}, [(run.name, run.digest) for run in every], _commands(path.parent)),
    ]  # fmt: skip
    top = topline(f"demo: {len(every)} runs, {count_words(len(demo_runs.SEEDS), 'seed')} each")
    return page("FedFleet demo", body, top=top, description=demo_findings.headline(done))


def fleet_sides(done: RunsByWay, path: Path) -> list[Side]:
    """A side for each way on each fleet, in the fleet's colour; only plain FedAvg is asked where its time went."""
    return [
        Side(way, tuple(load_page_run(run.out, path, explained=way in _PACED) for run in done[fleet, way]), _COLOURS[fleet], way != WAITING, fleet)
        for fleet in demo_runs.FLEETS
        for way in demo_runs.WAYS
    ]  # fmt: skip


def _rename_side(side: Side) -> Side:
    return Side(_PACED[side.name], side.runs, side.colour, side.thin, side.group)


def user_sides(done: RunsByWay, path: Path) -> list[Side]:
    """A side for each method on the devices of people."""
    colours = (2, 4, 5)
    return [
        Side(way, tuple(load_page_run(run.out, path, explained=False) for run in done[USERS, way]), colours[i % 3])
        for i, way in enumerate(demo_users.METHODS)
    ]


def _verdicts(done: RunsByWay) -> str:
    """For each fleet: who stands highest and how sure that is."""
    items = list[str]()
    for fleet in demo_runs.FLEETS:
        order = demo_findings.ranking(done, fleet)
        better, worse = demo_findings.sure_differences(done, fleet)
        head = f"{fleet}: {join_words(better)} surely better" if better else f"{fleet}: none is surely better"
        sentences = (
            [f"{order[0][0]} stands at {whole_percent(order[0][1])}, {order[-1][0]} at {whole_percent(order[-1][1])}."]
            if order
            else []
        )
        none = [way for way in demo_runs.WAYS if demo_findings.mean_accuracy(done[fleet, way]) is None]
        sentences += [f"With {join_words(none)}, not every seed has a model by then."] if none else []
        sentences += (
            [f"{join_words(worse)} {'is' if len(worse) == 1 else 'are'} surely worse than FedAvg with a deadline."]
            if worse
            else []
        )
        left_out = demo_findings.never_took_part(done[fleet, WITH_DEADLINE])
        sentences.append(
            f"The deadline leaves out {mean_count(left_out)} of {demo_runs.CLIENTS} people."
            if left_out >= 0.5
            else "The deadline leaves out nobody."
        )
        items.append(
            f'<li class="c{_COLOURS[fleet]}"><b>{escape(capitalise(head))}</b><span>{escape(bind_units(" ".join(sentences)))}</span></li>'
        )
    return f'<ul class="verdicts">{"".join(items)}</ul>'  # fmt: skip


def _caveat(done: RunsByWay) -> str:
    """How much seeds alone change, where they change most, and what the test set leaves open."""
    values = {
        key: [float(v) for run in runs if (v := run.metrics["accuracy"]) is not None] for key, runs in done.items()
    }
    fleet, way = max((k for k, v in values.items() if v), key=lambda k: max(values[k]) - min(values[k]))
    tested = min(run.tested for runs in done.values() for run in runs if run.tested)
    error = max(sampling_error(v, tested) for accuracies in values.values() for v in accuracies)
    return bind_units(
        f'<p class="aside"><b>How sure? {capitalise(count_words(len(demo_runs.SEEDS), "seed"))} <abbr title="{SEED}">each</abbr>, so only large '
        f"differences count.</b> {escape(way)} on the {fleet} fleet ends at {share_range(values[fleet, way])}, by seeds alone. The {tested:,} test "
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
