"""The demo's second page: what changes when devices are grouped by user and may exchange samples."""

from __future__ import annotations

from collections.abc import Mapping

from fedfleet.app.demo.users import DEVICES, METHODS, ROUNDS, TARGET, one_user, result_row
from fedfleet.app.pages.exchange import durations, holdings
from fedfleet.app.pages.figures import accuracy_over_time
from fedfleet.app.pages.html import figure, page, table
from fedfleet.app.pages.svg import COLOURS
from fedfleet.app.runs import Finished
from fedfleet.app.terminal.text import percent, span
from fedfleet.shuffle import score, solve


def users_page(runs: Mapping[str, Finished]) -> str:
    """The page."""
    problem = one_user()
    found = solve(problem)
    assert found.bound is not None
    after = score(problem, found.plan)
    lines = [(n, done.events, COLOURS[i], False) for i, (n, done) in enumerate(runs.items())]
    rows = []
    for name, done in runs.items():
        r = result_row(name, done)
        to = r["seconds_to_target"]
        rows.append([name, METHODS[name][0], percent(r["accuracy"]), "never" if to is None else span(to), span(r["virtual_seconds"])])  # fmt: skip
    body = [
        "<h1>One person, several devices</h1>",
        f'<p class="lead">Phones, watches and tablets often belong to one person, who may let them share data. Here {DEVICES} devices, two to '
        "five per user, learn to read digits; they differ 13-fold in computing speed and 200-fold in bandwidth.</p>",
        table(["method", "what it does", "accuracy", f"time to {TARGET:.0%}", f"time of {ROUNDS} rounds"], rows, words=[1]),
        figure(accuracy_over_time(lines), "Accuracy against virtual time. The time for planning, exchanging samples and sending models is included."),
        "<h2>What an exchange looks like</h2>",
        f"<p>The user with most devices, before and after its first exchange. If samples could be divided, the best plan is known to within {(found.relaxed - found.bound) / found.relaxed:.2%}; "
        f"the plan in whole samples costs {found.score.objective / found.relaxed - 1:.1%} more than that. "
        f"{int(after.moved)} of {int(problem.counts.sum())} samples change device.</p>",
        holdings(problem.counts, found.plan.sum(0)),
        durations(problem, found.plan),
        '<p><a href="report.html">Back to the three fleets.</a> Solve an exchange of your own with <code>fedfleet shuffle user.json --picture user.html</code>.</p>',
    ]  # fmt: skip
    return page("FedFleet demo: one person, several devices", body)
