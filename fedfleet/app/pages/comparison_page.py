"""The page of a comparison: which to choose and how sure, how each learnt, who took part, where the time went, what it cost."""

from __future__ import annotations

from html import escape
from pathlib import Path

from fedfleet.app.pages.html import bind_units, page, topline
from fedfleet.app.pages.sides.arms_as_sides import group_arms, sides_of
from fedfleet.app.pages.sides.comparison_checks import check_section, commands_for
from fedfleet.app.pages.sides.comparison_words import capitalise, count_words, time_text
from fedfleet.app.pages.sides.curves import accuracy_figure
from fedfleet.app.pages.sides.run_looks import Side, link_to, load_page_run
from fedfleet.app.pages.sides.run_rows import runs_table
from fedfleet.app.pages.sides.side_hardness import hardness_section
from fedfleet.app.pages.sides.side_participation import participation_section
from fedfleet.app.pages.sides.side_times import cost_section, time_section
from fedfleet.app.pages.sides.standings import standings_figure
from fedfleet.app.pages.sides.verdicts import GroupVerdicts, caveat, headline, lead, verdict_list
from fedfleet.app.studies.compare.arms import seed_of
from fedfleet.app.studies.compare.comparison import Comparison
from fedfleet.app.studies.compare.verdict import verdict
from fedfleet.core.errors import BadInput

_MAX_EXPLAINED = 40  # runs whose time is explained: more would keep the reader of the page waiting


def write_comparison(comparison: Comparison, path: Path) -> Path:
    """Write the page of a comparison as one HTML file; rows lead to the reports of their runs."""
    try:
        path.write_text(comparison_page(comparison, path), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error}; choose another file with --out") from None
    return path


def comparison_page(comparison: Comparison, path: Path) -> str:
    """The page; `path` is where it will lie, so that it can lead to the reports of the runs."""
    groups = group_arms(comparison.arms)
    explained = len(comparison.runs) <= _MAX_EXPLAINED
    page_runs = {
        run.out: load_page_run(run.out, path, seed=seed_of(run), explained=explained) for run in comparison.runs
    }
    sides = sides_of(groups, page_runs)
    verdicts: GroupVerdicts = {
        group: (arms, comparison.verdict if len(groups) == 1 else verdict(arms)) for group, arms in groups.items()
    }
    title = headline(verdicts)
    body = [
        f"<h1>{escape(bind_units(title))}</h1>",
        f'<p class="lead">{escape(bind_units(lead(verdicts)))}</p>',
        verdict_list(verdicts, sides, comparison.target),
        caveat(verdicts),
        accuracy_figure(sides, target=comparison.target),
        *_equal_time(comparison, sides),
        f"<h2>{capitalise(count_words(len(comparison.runs), 'run'))}</h2>",
        runs_table(sides, target=comparison.target),
        participation_section(sides),
        time_section(sides),
        hardness_section(sides),
        cost_section(sides),
        check_section(
            [run.name for run in comparison.runs], comparison.differs, [(run.name, run.digest) for run in comparison.runs],
            commands_for([run.out for run in comparison.runs]),
        ),
    ]  # fmt: skip
    top = topline(f"comparison of {count_words(len(comparison.runs), 'run')}", _report_links(comparison, path))
    return page(f"FedFleet: {title}", body, top=top, description=comparison.verdict.sentence)


def _equal_time(comparison: Comparison, sides: list[Side]) -> list[str]:
    """Where all stood when the shortest run ended; nothing where that is the end of all."""
    moment = comparison.verdict.at_equal_time
    if moment is None or moment.seconds is None or all(run.end <= 1.05 * moment.seconds for run in comparison.runs):
        return []
    how = "A small dot is a seed, the large one their mean. By then the shortest run had ended."
    return [
        standings_figure(
            sides, f"Accuracy at equal {moment.clock} time: after {time_text(moment.seconds)}", how, at=moment.seconds
        )
    ]


def _report_links(comparison: Comparison, path: Path) -> list[tuple[str, str]]:
    """The reports of the runs, if they are few."""
    links = [(run.name, link_to(run.out, path)) for run in comparison.runs]
    return [(name, to) for name, to in links if to] if len(links) <= 3 else []
