"""The page of a comparison: which arm is best and how sure that is, learning curves, participation, time, cost, how to check it."""

from __future__ import annotations

from pathlib import Path

from fedfleet.app.pages.html import topline
from fedfleet.app.pages.sides import sections
from fedfleet.app.pages.sides.comparison_words import count_words
from fedfleet.app.pages.sides.page_runs import group_arms, link_to, load_page_run, sides_of
from fedfleet.app.pages.sides.sections import PageFacts, commands_for, ended_together, sections_page
from fedfleet.app.pages.sides.verdicts import GroupVerdicts, caveat, headline, lead, tradeoffs, verdict_list
from fedfleet.app.studies.compare.aim_names import AIMS
from fedfleet.app.studies.compare.arms import seed_of
from fedfleet.app.studies.compare.comparison import Comparison
from fedfleet.app.studies.compare.verdict import verdict
from fedfleet.core.errors import BadInput

SECTIONS = (
    sections.conclusion,
    sections.accuracy,
    sections.measures,
    sections.equal_time,
    sections.runs,
    *sections.MEASURED,
    sections.checks,
)
_MAX_EXPLAINED = 40  # runs whose time is explained: more would keep the reader of the page waiting
_MAX_LINKED = 3  # runs whose reports the line above the page names


def write_comparison(comparison: Comparison, path: Path) -> Path:
    """Write the page of a comparison as one HTML file; rows lead to the reports of their runs."""
    try:
        path.write_text(comparison_page(comparison, path), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error}; choose another file with --out") from None
    return path


def comparison_page(comparison: Comparison, path: Path) -> str:
    """The page; `path` is where it will lie, so that it can lead to the reports of the runs."""
    runs, groups = comparison.runs, group_arms(comparison.arms)
    explained = len(runs) <= _MAX_EXPLAINED
    page_runs = {run.out: load_page_run(run.out, path, seed=seed_of(run), explained=explained) for run in runs}
    sides = sides_of(groups, page_runs)
    asked = comparison.verdict.recommendation
    verdicts: GroupVerdicts = {
        group: (
            arms,
            comparison.verdict if len(groups) == 1 else verdict(arms, aim=asked.aim, target=comparison.target, look=asked.look),
        )
        for group, arms in groups.items()
    }
    moment = comparison.verdict.at_equal_time
    seconds = None if moment is None else moment.seconds
    facts = PageFacts(
        finding=headline(verdicts),
        lead=lead(verdicts),
        sides=sides,
        verdicts=tradeoffs(verdicts) + verdict_list(verdicts, sides, comparison.target),
        caveat=caveat(verdicts),
        target=comparison.target,
        equal_time=None if seconds is None or ended_together(sides, seconds) else seconds,
        clock="" if moment is None else moment.clock,
        names=[run.name for run in runs],
        differs=comparison.differs,
        digests=[(run.name, run.digest) for run in runs],
        commands=commands_for([run.out for run in runs]),
        measures=[] if asked.aim in AIMS else [asked.aim],
    )
    links = [(run.name, link_to(run.out, path)) for run in runs]
    top = topline(
        f"comparison of {count_words(len(runs), 'run')}",
        [(name, to) for name, to in links if to] if len(links) <= _MAX_LINKED else [],
    )
    return sections_page(f"FedFleet: {facts.finding}", facts, SECTIONS, top=top, description=comparison.verdict.sentence)
