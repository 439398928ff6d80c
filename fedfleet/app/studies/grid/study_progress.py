"""The live table of a study on standard error, if that is a terminal: done, running with their rounds, waiting, time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from fedfleet.app.studies.grid.expansion import Cell
from fedfleet.app.studies.grid.study_jobs import Hear, Heard
from fedfleet.app.terminal.text import span

_SHOWN = 12  # runs that are listed at once
_PER_SECOND = 4


@dataclass(slots=True)
class Board:
    """Where every run is. `rounds` are those that it will take at most; a run that was finished before is `cached`."""

    titles: Sequence[str]
    rounds: Sequence[int]
    cached: frozenset[int]
    at: dict[int, int] = field(default_factory=dict[int, int])
    over: dict[int, str] = field(default_factory=dict[int, str])

    def hear(self, news: Heard) -> None:
        """Take news of a run."""
        if news.over:
            self.over[news.cell] = news.failure
        elif news.round:
            self.at[news.cell] = news.round
        elif news.again:
            self.at.pop(news.cell, None)  # its worker died, and it waits for another

    @property
    def running(self) -> list[int]:
        """The runs that are going on."""
        return [i for i in sorted(self.at) if i not in self.over]

    @property
    def failed(self) -> int:
        """How many could not be finished."""
        return sum(1 for why in self.over.values() if why)

    def left(self, elapsed: float) -> float | None:
        """Seconds until the end, if rounds go on as they did; None before the first."""
        mine = [i for i in range(len(self.titles)) if i not in self.cached]
        done = sum(self.rounds[i] if i in self.over else self.at.get(i, 0) for i in mine)
        total = sum(self.rounds[i] for i in mine)
        return elapsed * (total - done) / done if done else None

    def headline(self, elapsed: float) -> str:
        """The state of the study in one line."""
        done = len(self.over) + len(self.cached)
        waiting = len(self.titles) - done - len(self.running)
        left = self.left(elapsed)
        parts = [f"{done} of {len(self.titles)} runs done"]
        parts += [f"{len(self.cached)} of them from before"] if self.cached else []
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{len(self.running)} running", f"{waiting} waiting", span(elapsed)]
        return ", ".join([*parts, *([] if left is None else [f"about {span(left)} left"])])

    def lines(self) -> list[tuple[str, str]]:
        """The runs that are going on, each with its round; those that do not fit are counted."""
        shown = [(self.titles[i], f"round {self.at[i]} of {self.rounds[i]}") for i in self.running[:_SHOWN]]
        more = len(self.running) - _SHOWN
        return [*shown, *([(f"and {more} more", "")] if more > 0 else [])]


def board(cells: Sequence[Cell], cached: Sequence[int]) -> Board:
    """The board of a study that is about to begin."""
    rounds = [cell.spec.stop["commits"] or cell.spec.stop["rounds"] for cell in cells]
    return Board([cell.title for cell in cells], rounds, frozenset(cached))


@contextmanager
def shown(mine: Board, *, quiet: bool = False) -> Iterator[Hear]:
    """Draw the board while it changes; a function that takes news is given either way."""
    if quiet or not sys.stderr.isatty():
        yield mine.hear
        return
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    began = time.monotonic()

    def drawn() -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_row(mine.headline(time.monotonic() - began))
        for title, where in mine.lines():
            table.add_row(Text(f"  {title}"), where)  # brackets in a name are no markup
        return table

    # The stream itself: while runs go on in this process, what they say goes elsewhere.
    console = Console(file=sys.stderr)
    with Live(
        get_renderable=drawn, console=console, refresh_per_second=_PER_SECOND, transient=True, redirect_stderr=False
    ):
        yield mine.hear
