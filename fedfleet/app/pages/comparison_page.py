"""The page of a comparison: which to choose and how sure, how each learnt, who took part, where the time went, what it cost."""

from __future__ import annotations

from html import escape
from pathlib import Path

from fedfleet.app.pages.html import page, tight, topline
from fedfleet.app.pages.sides.arms_as_sides import grouped, sides_of
from fedfleet.app.pages.sides.comparison_checks import commands_for, how_to_check
from fedfleet.app.pages.sides.comparison_words import capital, count, time
from fedfleet.app.pages.sides.curves import accuracy_figure
from fedfleet.app.pages.sides.run_looks import Side, link_to, look
from fedfleet.app.pages.sides.run_rows import runs_table
from fedfleet.app.pages.sides.side_hardness import how_hard
from fedfleet.app.pages.sides.side_participation import who_took_part
from fedfleet.app.pages.sides.side_times import what_it_cost, where_time_went
from fedfleet.app.pages.sides.standings import standings_figure
from fedfleet.app.pages.sides.verdicts import Judged, caveat, headline, lead, verdict_list
from fedfleet.app.studies.compare.arms import seed_of
from fedfleet.app.studies.compare.records import Comparison
from fedfleet.app.studies.compare.verdict import verdict
from fedfleet.core.errors import BadInput

_EXPLAINED = 40  # runs whose time is explained: more would keep the reader of the page waiting


def write_comparison(found: Comparison, path: Path) -> Path:
    """Write the page of a comparison as one HTML file; rows lead to the reports of their runs."""
    try:
        path.write_text(comparison_page(found, path), encoding="utf-8")
    except OSError as wrong:
        raise BadInput(f"cannot write {path}: {wrong}; choose another file with --out") from None
    return path


def comparison_page(found: Comparison, path: Path) -> str:
    """The page; `path` is where it will lie, so that it can lead to the reports of the runs."""
    groups = grouped(found.arms)
    explained = len(found.runs) <= _EXPLAINED
    looks = {run.out: look(run.out, path, seed=seed_of(run), explained=explained) for run in found.runs}
    sides = sides_of(groups, looks)
    judged: Judged = {
        group: (arms, found.verdict if len(groups) == 1 else verdict(arms)) for group, arms in groups.items()
    }
    title = headline(judged)
    body = [
        f"<h1>{escape(tight(title))}</h1>",
        f'<p class="lead">{escape(tight(lead(judged)))}</p>',
        verdict_list(judged, sides, found.target),
        caveat(judged),
        accuracy_figure(sides, target=found.target),
        *_equal_time(found, sides),
        f"<h2>{capital(count(len(found.runs), 'run'))}</h2>",
        runs_table(sides, target=found.target),
        who_took_part(sides),
        where_time_went(sides),
        how_hard(sides),
        what_it_cost(sides),
        how_to_check(
            [run.name for run in found.runs], found.differs, [(run.name, run.digest) for run in found.runs],
            commands_for([run.out for run in found.runs]),
        ),
    ]  # fmt: skip
    top = topline(f"comparison of {count(len(found.runs), 'run')}", _neighbours(found, path))
    return page(f"FedFleet: {title}", body, top=top, description=found.verdict.sentence)


def _equal_time(found: Comparison, sides: list[Side]) -> list[str]:
    """Where all stood when the shortest run ended; nothing where that is the end of all."""
    then = found.verdict.at_equal_time
    if then is None or then.seconds is None or all(run.end <= 1.05 * then.seconds for run in found.runs):
        return []
    how = "A small dot is a seed, the large one their mean. By then the shortest run had ended."
    return [
        standings_figure(
            sides, f"Accuracy at equal {then.clock} time: after {time(then.seconds)}", how, at=then.seconds
        )
    ]


def _neighbours(found: Comparison, path: Path) -> list[tuple[str, str]]:
    """The reports of the runs, if they are few."""
    links = [(run.name, link_to(run.out, path)) for run in found.runs]
    return [(name, to) for name, to in links if to] if len(links) <= 3 else []
