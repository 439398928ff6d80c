"""The base of all pages of several runs: what they know, and the sections that each of them is a list of."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from fedfleet.app.pages.charts.column_chart import Column, Panel, columns, rank_edges
from fedfleet.app.pages.charts.labels import width_of
from fedfleet.app.pages.charts.marks import figure
from fedfleet.app.pages.hardness_section import fleets_section
from fedfleet.app.pages.html import bind_units, details_block, page
from fedfleet.app.pages.sides.accuracy_figures import accuracy_figure, measure_figure, standings_figure
from fedfleet.app.pages.sides.comparison_words import capitalise, count_words, mean_count, time_range, time_text, whole_percent
from fedfleet.app.pages.sides.page_runs import Side
from fedfleet.app.pages.sides.run_rows import Head, html_table, runs_table
from fedfleet.app.pages.time_chart import cost_section, time_section
from fedfleet.app.studies.compare.arms import quote
from fedfleet.core.kinds import SCORE_NAMES
from fedfleet.core.limits import read_target
from fedfleet.core.records import Floats
from fedfleet.measure.goal import Target
from fedfleet.measure.measure_info import OWN

_ALIKE = 1.05  # runs whose ends differ by less have ended together
_COLUMNS = 6  # runs whose values stand side by side
_VALUES = 8  # different values of a key that are listed
PANELS = 12  # panels
_SLIM = 150.0  # pixels of a name that has half of a phone
_UNLIKE = 5.0  # sides whose fair shares differ by more would be flat on one scale
_SAME_SHARE = 1.1  # sides whose fair shares differ by less have one line for it


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What the sections of a page draw on.

    `verdicts` and `caveat` are HTML; `equal_time` is when the shortest run ended, in seconds of `clock`. `closer` are the sides whose
    learning, participation and time are drawn: all of them, unless that would be too many. The last four say how to check the page.
    """

    finding: str
    lead: str
    sides: Sequence[Side] = ()
    verdicts: str = ""
    caveat: str = ""
    target: Target | None = None
    equal_time: float | None = None
    clock: str = "virtual"
    closer: Sequence[Side] | None = None
    names: Sequence[str] = ()
    differs: Mapping[str, Sequence[Any]] | None = None
    digests: Sequence[tuple[str, str]] = ()
    commands: Sequence[str] = ()
    measures: Sequence[str] = ()  # further ones whose curves are drawn

    @property
    def drawn(self) -> Sequence[Side]:
        """The sides that figures show."""
        return self.sides if self.closer is None else self.closer


Section = Callable[[PageFacts], str]


def sections_page(title: str, facts: PageFacts, sections: Sequence[Section], *, top: str, description: str = "") -> str:
    """The whole page: its sections in their order; one that has nothing to show is empty."""
    body = [text for section in sections if (text := section(facts))]
    return page(title, body, top=top, description=description or facts.finding)


def conclusion(facts: PageFacts) -> str:
    """The finding as the title, the lead, a verdict for each group or side, and how sure all of it is."""
    head = f'<h1>{escape(bind_units(facts.finding))}</h1>\n<p class="lead">{escape(bind_units(facts.lead))}</p>'
    return "\n".join(filter(None, [head, facts.verdicts, facts.caveat]))


def accuracy(facts: PageFacts) -> str:
    """How each side learnt."""
    return accuracy_figure(facts.drawn, target=facts.target)


def measures(facts: PageFacts) -> str:
    """The main measure of the kind of task, and the ones that the page asks about; nothing for classification."""
    if not facts.drawn:
        return ""
    parsed = read_target(facts.target) if isinstance(facts.target, str) else None
    names = [facts.drawn[0].score.kind.main, *facts.measures, parsed[0] if parsed else ""]
    wanted = dict.fromkeys(name.removeprefix(OWN) for name in names if name and name not in SCORE_NAMES)
    return "".join(measure_figure(facts.drawn, name, target=facts.target) for name in wanted)


def equal_time(facts: PageFacts) -> str:
    """Where all stood when the shortest run ended, or at the end where all ended together; nothing without such a moment."""
    seconds = facts.equal_time
    if not seconds or not facts.sides:
        return ""
    ends, name = [run.end for side in facts.sides for run in side.runs], facts.sides[0].score.title
    how = "A small dot is a seed, the large one their mean."
    if ended_together(facts.sides, seconds):
        return standings_figure(facts.sides, f"{name} of the last models", how)
    title = f"{name} at equal {facts.clock} time: after {time_text(seconds)}"
    return standings_figure(facts.sides, title, f"{how} The runs ended after {time_range(ends)}.", at=seconds)


def ended_together(sides: Sequence[Side], seconds: float) -> bool:
    """Whether this moment, at which the first run ended, is the end of all of them."""
    return all(run.end <= _ALIKE * seconds for side in sides for run in side.runs)


def runs(facts: PageFacts) -> str:
    """The table with a row for each side."""
    total = sum(len(side.runs) for side in facts.sides)
    return f"<h2>{capitalise(count_words(total, 'run'))}</h2>{runs_table(facts.sides, target=facts.target)}"


def checks(facts: PageFacts) -> str:
    """How to check the page: three things behind their names."""
    wide = max((len(name) for name, _ in facts.digests), default=0)
    digests = "\n".join(f"{name:<{wide}}  {digest}" for name, digest in facts.digests)
    return (
        "<h2>How to check it</h2>"
        + (details_block("What differs between the runs", differences(facts.names, facts.differs)) if facts.differs else "")
        + (details_block("Digests of the journals", f"<pre>{escape(digests)}</pre>") if digests else "")
        + (details_block("Commands", f"<pre>{escape(chr(10).join(facts.commands))}</pre>") if facts.commands else "")
    )


# What all of these pages show of their sides: whose reports were used, what the server waited for, how hard the fleets are, device work.
MEASURED: Sequence[Section] = (
    lambda facts: participation_section(facts.drawn),
    lambda facts: time_section(facts.drawn),
    lambda facts: fleets_section(facts.drawn),
    lambda facts: cost_section(facts.sides),
)


def differences(names: Sequence[str], differs: Mapping[str, Sequence[Any]]) -> str:
    """Keys of the specs with the value of each run; of many runs, with the different values."""
    if len(names) <= _COLUMNS:
        heads = [Head("key"), *(Head(name, kind="words") for name in names)]
        return html_table(heads, [[_code(key), *(escape(_word(v)) for v in values)] for key, values in differs.items()])
    rows = [[_code(key), escape(_values(values))] for key, values in differs.items()]
    return html_table([Head("key"), Head("values", kind="words")], rows)


def _code(key: str) -> str:
    return f"<code>{escape(key)}</code>"


def _word(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)


def _values(values: Sequence[Any]) -> str:
    result = list(dict.fromkeys(map(_word, values)))
    return ", ".join(result[:_VALUES]) + (f" and {len(result) - _VALUES} more" if len(result) > _VALUES else "")


def commands_for(folders: Sequence[Path]) -> list[str]:
    """What to type: replay one run, explain it, change it and compare."""
    if not folders:
        return []
    first = shlex.quote(str(folders[0]))
    first_two = shlex.join(map(str, folders[:2]))
    return [
        f"fedfleet replay {first}",
        f"fedfleet explain {first}",
        f"fedfleet run {shlex.quote(str(folders[0] / 'spec.toml'))} seed=1 --out mine",
        f"fedfleet compare {first_two} mine",
    ]


def participation_section(sides: Sequence[Side]) -> str:
    """A sentence and the figure; nothing where no client was selected."""
    asked_sides = [side for side in sides if any(len(one.used) for one in side.runs)]
    if not asked_sides:
        return ""
    if len({side.group for side in asked_sides}) > 1:  # groups in columns: what has one name stands in one row
        names = list(dict.fromkeys(side.name for side in asked_sides))
        asked_sides.sort(key=lambda side: names.index(side.name))
    shown = asked_sides[:PANELS]
    fair = [fmean(float((one.used + one.late).mean()) for one in side.runs) for side in shown]
    same, apart = max(fair) <= _SAME_SHARE * min(fair), min(fair) > 0 and max(fair) > _UNLIKE * min(fair)
    ref = (fmean(fair), f"fair share: {mean_count(fmean(fair))}") if same else (1.0, "equal share") if apart else None
    panels = [panel(side, unit=each if apart else 1.0) for side, each in zip(shown, fair, strict=True)]
    across = 3 if len(shown) % 3 == 0 or len(shown) > 4 else 2
    alone = any(width_of(side.label, strong=True) > _SLIM for side in shown)
    unequal = "in equal shares of all reports that were asked for, since these runs selected clients unequally often"
    scale = unequal if apart else "all on one scale"
    how = (
        f"Clients sorted from most to least; {scale}. Under the axis, hatched: selected, and always too late; grey: never selected."
    )
    seeds = max(len(side.runs) for side in shown)
    how += f" Means over {seeds} seeds, rank by rank." if seeds > 1 else ""
    note = f"The first {PANELS} of {len(asked_sides)} are drawn." if len(asked_sides) > PANELS else ""
    never = list[str]()
    for side in shown:
        count = mean_count(fmean(float((one.used == 0).sum()) for one in side.runs))
        never.append(f"{side.label}: {count} of {len(side.runs[0].used):,} never took part")
    body = figure(
        "How many reports of each client were used",
        how,
        lambda sheet: columns(panels, sheet, across=1 if sheet.slim and alone else across, ref=ref),
        "; ".join(never) + ".",
        note=note,
    )
    return f"<h2>Participation</h2><p>{escape(participation_sentence(shown))}</p>{body}"


def participation_sentence(sides: Sequence[Side]) -> str:
    """Where participation was most uneven, in one sentence."""
    tops = [(top_tenth(side), side) for side in sides if any(len(one.used) >= 10 for one in side.runs)]
    if not tops:
        return "A model learns from the clients whose reports arrive in time."
    share, side = max(tops, key=lambda found: found[0])
    who = f"With {quote(side.label)} a tenth of the clients sent {whole_percent(share)} of all reports that were used."
    return f"A model learns from the clients whose reports arrive in time. {who}"


def top_tenth(side: Side) -> float:
    """The share of used reports that came from the busiest tenth; the mean over seeds."""
    shares = list[float]()
    for one in side.runs:
        ordered = np.sort(one.used)[::-1]
        shares.append(float(ordered[: -(-len(ordered) // 10)].sum() / ordered.sum()) if ordered.sum() else 0.0)
    return fmean(shares) if shares else 0.0


def panel(side: Side, unit: float = 1.0) -> Panel:
    """Means over seeds in this unit, rank by rank, with those who never took part counted apart."""
    people = min(len(one.used) for one in side.runs)
    counts: Floats = np.mean([np.sort(one.used)[::-1][:people] for one in side.runs], axis=0)
    late = fmean(float(((one.used == 0) & (one.late > 0)).sum()) for one in side.runs)
    never = fmean(float(((one.used == 0) & (one.late == 0)).sum()) for one in side.runs)
    edges = rank_edges(people, 120)
    bars = [
        Column(float(counts[a:b].mean()) / unit, title=f"client {a + 1}: {mean_count(float(counts[a]))} reports")
        for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        if counts[a] > 0
    ]
    # Columns stand for all clients of the panel; those with nothing are empty places.
    bars += [Column(0.0)] * (len(edges) - 1 - len(bars))
    return Panel(
        bars, side.label, side.colour, people=people, late=round(late), never=round(late + never) - round(late),
        captions=_panel_captions(late, never, people),
    )  # fmt: skip


def _panel_captions(late: float, never: float, people: int) -> list[str]:
    if late + never < 0.05:
        return ["all took part"]
    parts = [f"{mean_count(late)} too late"] if late >= 0.05 else []
    parts += [f"{mean_count(never)} not selected"] if never >= 0.05 else []
    return [f"{mean_count(late + never)} of {people:,} never took part", ", ".join(parts)]
