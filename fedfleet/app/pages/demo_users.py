"""The demo's second question on its page: what changes when devices belong to people and may exchange samples."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fedfleet.app.demo import answer, fleets, users
from fedfleet.app.demo.running import USERS, Done
from fedfleet.app.pages.compared.curves import accuracy_figure
from fedfleet.app.pages.compared.looking import Side
from fedfleet.app.pages.compared.rows import Head, accuracy_cell, html_table, seed_links, time_to
from fedfleet.app.pages.compared.words import points, tight
from fedfleet.app.pages.exchange import durations, holdings
from fedfleet.app.pages.html import figure
from fedfleet.shuffle import score, solve


def users_section(done: Done, sides: Sequence[Side]) -> str:
    """The section: what was reached, how, and what an exchange looks like."""
    rows = [
        [
            escape(side.name), escape(users.METHODS[side.name][0]), accuracy_cell([v for one in side.looks if (v := one.last) is not None]),
            escape(time_to(side.looks, users.TARGET)), seed_links(side.looks),
        ]
        for side in sides
    ]  # fmt: skip
    heads = [
        Head("method"), Head("what it does", kind="words"), Head("accuracy", "The mean over seeds, and from lowest to highest."),
        Head(f"time to {points(users.TARGET)}", "The median over seeds, by Kaplan and Meier."), Head("seeds", kind="words"),
    ]  # fmt: skip
    return "".join([
        "<h2>One person, several devices</h2>",
        f"<p>{escape(tight(sentence(done)))}</p>",
        html_table(heads, rows),
        accuracy_figure(sides, title=f"Accuracy within {users.MINUTES} min, by what a person's devices share", target=users.TARGET),
        _exchange(),
    ])  # fmt: skip


def sentence(done: Done) -> str:
    """What was compared, and by how much sharing is faster."""
    said = {way: answer.time_to(done[USERS, way], users.TARGET) for way in users.METHODS}
    flat, shared = said["FedAvg"], said["ShuffleFL"]
    faster = (
        f" ShuffleFL reaches {points(users.TARGET)} {flat / shared:.1f} times as fast as FedAvg."
        if flat and shared
        else ""
    )
    return (
        f"Phones, watches and tablets often belong to one person, who may let them share data. Here {users.DEVICES} devices, two to five a person, "
        f"learn to read digits; their links and processors differ widely.{faster}"
    )


def _exchange() -> str:
    """The exchange of one person, before and after."""
    problem = users.one_user(fleets.SEEDS[0])
    found = solve(problem, quick=True)
    moved = int(score(problem, found.plan).moved)
    return (
        f"<h3>What an exchange looks like</h3><p>The person with most devices, before and after the first exchange: {moved} of {int(problem.counts.sum())} samples change device.</p>"
        + figure(holdings(problem.counts, found.plan.sum(0)), "How many samples of each digit, 0 to 9 from left to right, a device holds before and after; all bars have the same scale.")
        + figure(durations(problem, found.plan), "How long each device takes: the slow ones hand samples to those that have time.")
    )  # fmt: skip
