"""The base of all pages of several runs: what they know, and the sections that each of them is a list of."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from fedfleet.app.pages.html import bind_units, details_block, page
from fedfleet.app.pages.sides.accuracy_figures import accuracy_figure, standings_figure
from fedfleet.app.pages.sides.comparison_words import capitalise, count_words, time_range, time_text
from fedfleet.app.pages.sides.page_runs import Side
from fedfleet.app.pages.sides.run_rows import Head, html_table, runs_table
from fedfleet.app.pages.sides.side_hardness import hardness_section
from fedfleet.app.pages.sides.side_participation import participation_section
from fedfleet.app.pages.sides.side_times import cost_section, time_section

_ALIKE = 1.05  # runs whose ends differ by less have ended together
_COLUMNS = 6  # runs whose values stand side by side
_VALUES = 8  # different values of a key that are listed


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
    target: float | None = None
    equal_time: float | None = None
    clock: str = "virtual"
    closer: Sequence[Side] | None = None
    names: Sequence[str] = ()
    differs: Mapping[str, Sequence[Any]] | None = None
    digests: Sequence[tuple[str, str]] = ()
    commands: Sequence[str] = ()

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


def equal_time(facts: PageFacts) -> str:
    """Where all stood when the shortest run ended, or at the end where all ended together; nothing without such a moment."""
    seconds = facts.equal_time
    if not seconds or not facts.sides:
        return ""
    ends = [run.end for side in facts.sides for run in side.runs]
    how = "A small dot is a seed, the large one their mean."
    if ended_together(facts.sides, seconds):
        return standings_figure(facts.sides, "Accuracy of the last models", how)
    title = f"Accuracy at equal {facts.clock} time: after {time_text(seconds)}"
    return standings_figure(facts.sides, title, f"{how} The runs ended after {time_range(ends)}.", at=seconds)


def ended_together(sides: Sequence[Side], seconds: float) -> bool:
    """Whether this moment, at which the first run ended, is the end of all of them."""
    return all(run.end <= _ALIKE * seconds for side in sides for run in side.runs)


def runs(facts: PageFacts) -> str:
    """The table with a row for each side."""
    total = sum(len(side.runs) for side in facts.sides)
    return f"<h2>{capitalise(count_words(total, 'run'))}</h2>{runs_table(facts.sides, target=facts.target)}"


def participation(facts: PageFacts) -> str:
    """Whose reports were used."""
    return participation_section(facts.drawn)


def times(facts: PageFacts) -> str:
    """What the server waited for."""
    return time_section(facts.drawn)


def hardness(facts: PageFacts) -> str:
    """How hard the fleets are."""
    return hardness_section(facts.drawn)


def costs(facts: PageFacts) -> str:
    """Device work, used and wasted."""
    return cost_section(facts.sides)


def checks(facts: PageFacts) -> str:
    """How to check the page."""
    return check_section(facts.names, facts.differs or {}, facts.digests, facts.commands)


MEASURED: Sequence[Section] = (participation, times, hardness, costs)  # what all of these pages show of their sides


def check_section(
    names: Sequence[str], differs: Mapping[str, Sequence[Any]], digests: Sequence[tuple[str, str]], commands: Sequence[str]
) -> str:
    """Three things behind their names."""
    pre = "\n".join(f"{name:<{max(len(n) for n, _ in digests)}}  {digest}" for name, digest in digests) if digests else ""
    return (
        "<h2>How to check it</h2>"
        + (details_block("What differs between the runs", differences(names, differs)) if differs else "")
        + (details_block("Digests of the journals", f"<pre>{escape(pre)}</pre>") if pre else "")
        + (details_block("Commands", f"<pre>{escape(chr(10).join(commands))}</pre>") if commands else "")
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
