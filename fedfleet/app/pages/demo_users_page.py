"""The demo's second question on its page: what changes when devices belong to people and may exchange samples."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fedfleet.app.demo import demo_findings, demo_runs, demo_users
from fedfleet.app.demo.demo_jobs import USERS, RunsByWay
from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.marks import draw_both, figure, paint_legend
from fedfleet.app.pages.html import bind_units
from fedfleet.app.pages.sides.comparison_words import whole_percent
from fedfleet.app.pages.sides.curves import accuracy_figure
from fedfleet.app.pages.sides.run_looks import Side
from fedfleet.app.pages.sides.run_rows import Head, accuracy_cell, html_table, seed_links, time_to
from fedfleet.shuffle import score, solve
from fedfleet.shuffle.problem import effort


def users_section(done: RunsByWay, sides: Sequence[Side]) -> str:
    """The section: what was reached, how, and what an exchange looks like."""
    rows = [
        [
            escape(side.name), escape(demo_users.METHODS[side.name][0]), accuracy_cell([v for one in side.runs if (v := one.last) is not None]),
            escape(time_to(side.runs, demo_users.TARGET)), seed_links(side.runs),
        ]
        for side in sides
    ]  # fmt: skip
    heads = [
        Head("method"), Head("what it does", kind="words"), Head("accuracy", "The mean over seeds, and from lowest to highest."),
        Head(f"time to {whole_percent(demo_users.TARGET)}", "The median over seeds, by Kaplan and Meier."), Head("seeds", kind="words"),
    ]  # fmt: skip
    return "".join([
        "<h2>One person, several devices</h2>",
        f"<p>{escape(bind_units(sentence(done)))}</p>",
        html_table(heads, rows),
        accuracy_figure(sides, title=f"Accuracy within {demo_users.MINUTES} min, by what a person's devices share", target=demo_users.TARGET),
        _exchange_figure(),
    ])  # fmt: skip


def sentence(done: RunsByWay) -> str:
    """What was compared, and by how much sharing is faster."""
    times = {way: demo_findings.median_time_to(done[USERS, way], demo_users.TARGET) for way in demo_users.METHODS}
    flat, shared = times["FedAvg"], times["ShuffleFL"]
    faster = (
        f" ShuffleFL reaches {whole_percent(demo_users.TARGET)} {flat / shared:.1f} times as fast as FedAvg."
        if flat and shared
        else ""
    )
    return (
        f"Phones, watches and tablets often belong to one person, who may let them share data. Here {demo_users.DEVICES} devices, two to five a person, "
        f"learn to read digits; their links and processors differ widely.{faster}"
    )


def _exchange_figure() -> str:
    """The exchange of one person: how long each device takes before and after."""
    problem = demo_users.one_user(demo_runs.SEEDS[0])
    plan = solve(problem, quick=True).plan
    moved, every = int(score(problem, plan).moved), int(problem.counts.sum())
    training, before = effort(problem) * plan.sum((0, 1)), effort(problem) * problem.counts.sum(1)
    exchange_seconds = score(problem, plan).latency - training
    rows = list[Bar]()
    for v in range(len(before)):
        counts = f"{int(problem.counts[v].sum())} samples", f"{int(plan.sum((0, 1))[v])} samples"
        rows.append(Bar(f"device {v + 1}, before", [Part(before[v], "a6")], f"{before[v]:.0f} s, {counts[0]}"))
        rows.append(
            Bar(
                "after",
                [Part(training[v], "a5"), Part(exchange_seconds[v], "a4")],
                f"{training[v] + exchange_seconds[v]:.0f} s, {counts[1]}",
            )
        )
    wide, slim = draw_both(lambda sheet: bars(rows, sheet, names_left=True))
    slowest = f"The slowest device needs {max(before):.0f} s before and {max(training + exchange_seconds):.0f} s after."
    return figure(
        f"What an exchange looks like: {moved} of {every} samples of one person change device",
        "How long each device of the person with most devices takes in the first round: slow ones hand samples to those that have time.",
        wide, slim, slowest, legend=paint_legend([("before", "a6"), ("after: training", "a5"), ("after: sending and receiving samples", "a4")]),
        note=slowest,
    )  # fmt: skip
