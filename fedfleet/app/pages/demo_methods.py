"""The demo's third page: six methods on one and the same fleet."""

from __future__ import annotations

from collections.abc import Mapping

from fedfleet.app.demo.methods import FLEET, HOURS, METHODS, TARGET, result_row
from fedfleet.app.pages.figures import accuracy_over_time
from fedfleet.app.pages.html import figure, page, table
from fedfleet.app.pages.svg import COLOURS
from fedfleet.app.runs import Finished
from fedfleet.app.terminal.text import percent, size, span


def methods_page(runs: Mapping[str, Finished]) -> str:
    """The page."""
    head = [
        "method",
        "what it does",
        "accuracy",
        f"time to {TARGET:.0%}",
        "models made",
        "sent up",
        "sent down",
        "time wasted",
    ]
    rows = []
    for name, done in runs.items():
        r = result_row(name, done)
        to = r["seconds_to_target"]
        rows.append([
            name, METHODS[name][0], percent(r["accuracy"]), "never" if to is None else span(to), str(r["commits"]),
            size(r["bytes_up"]), size(r["bytes_down"]), percent(r["wasted_share"]),
        ])  # fmt: skip
    lines = [(n, done.events, COLOURS[i], False) for i, (n, done) in enumerate(runs.items())]
    body = [
        "<h1>Six methods, one fleet</h1>",
        f'<p class="lead">The {FLEET} fleet again, for {HOURS} hours: the same phones, the same links, the same data, and as many '
        "models as each method can make in that time.</p>",
        table(head, rows, words=[1]),
        figure(accuracy_over_time(lines), "Accuracy against virtual time: all methods have the same hours, not the same number of rounds."),
        "<p>BiasPrompt+ trains another model than the rest, a small transformer whose backbone was made from generated pictures; as all "
        "of them it is charged as if the whole model had 343 MB.</p>",
        '<p><a href="report.html">Back to the three fleets.</a> All methods by name: <code>fedfleet list algorithms</code>.</p>',
    ]  # fmt: skip
    return page("FedFleet demo: six methods", body)
