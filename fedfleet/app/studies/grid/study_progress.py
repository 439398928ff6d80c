"""The live table of a study on standard error, if that is a terminal: done, running with their rounds, waiting, time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from fedfleet.app.studies.grid.study_jobs import NewsListener, RunNews
from fedfleet.app.studies.grid.study_runs import Cell
from fedfleet.app.terminal.text import span

_MAX_ROWS = 12  # runs that are listed at once
_PER_SECOND = 4


@dataclass(slots=True)
class Board:
    """Where every run is. `rounds` are those that it will take at most; a run that was finished before is `cached`."""

    titles: Sequence[str]
    rounds: Sequence[int]
    cached: frozenset[int]
    current_rounds: dict[int, int] = field(default_factory=dict[int, int])
    outcomes: dict[int, str] = field(default_factory=dict[int, str])

    def take_news(self, news: RunNews) -> None:
        """Take news of a run."""
        if news.is_over:
            self.outcomes[news.cell] = news.failure
        elif news.round:
            self.current_rounds[news.cell] = news.round
        elif news.worker_deaths:
            self.current_rounds.pop(news.cell, None)  # its worker died, and it waits for another

    @property
    def running(self) -> list[int]:
        """The runs that are going on."""
        return [i for i in sorted(self.current_rounds) if i not in self.outcomes]

    @property
    def failed_count(self) -> int:
        """How many could not be finished."""
        return sum(1 for why in self.outcomes.values() if why)

    def seconds_left(self, elapsed: float) -> float | None:
        """Seconds until the end, if rounds go on as they did; None before the first."""
        new_runs = [i for i in range(len(self.titles)) if i not in self.cached]
        done = sum(self.rounds[i] if i in self.outcomes else self.current_rounds.get(i, 0) for i in new_runs)
        total = sum(self.rounds[i] for i in new_runs)
        return elapsed * (total - done) / done if done else None

    def headline(self, elapsed: float) -> str:
        """The state of the study in one line."""
        done = len(self.outcomes) + len(self.cached)
        waiting = len(self.titles) - done - len(self.running)
        left = self.seconds_left(elapsed)
        parts = [f"{done} of {len(self.titles)} runs done"]
        parts += [f"{len(self.cached)} of them from before"] if self.cached else []
        parts += [f"{self.failed_count} failed"] if self.failed_count else []
        parts += [f"{len(self.running)} running", f"{waiting} waiting", span(elapsed)]
        return ", ".join([*parts, *([] if left is None else [f"about {span(left)} left"])])

    def lines(self) -> list[tuple[str, str]]:
        """The runs that are going on, each with its round; those that do not fit are counted."""
        shown = [(self.titles[i], f"round {self.current_rounds[i]} of {self.rounds[i]}") for i in self.running[:_MAX_ROWS]]
        more = len(self.running) - _MAX_ROWS
        return [*shown, *([(f"and {more} more", "")] if more > 0 else [])]


def board(cells: Sequence[Cell], cached: Sequence[int]) -> Board:
    """The board of a study that is about to begin."""
    rounds = [cell.spec.stop["commits"] or cell.spec.stop["rounds"] for cell in cells]
    return Board([cell.title for cell in cells], rounds, frozenset(cached))


@contextmanager
def show_board(run_board: Board, *, quiet: bool = False) -> Iterator[NewsListener]:
    """Draw the board while it changes; a function that takes news is given either way."""
    if quiet or not sys.stderr.isatty():
        yield run_board.take_news
        return
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    start = time.monotonic()

    def draw_table() -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_row(run_board.headline(time.monotonic() - start))
        for title, where in run_board.lines():
            table.add_row(Text(f"  {title}"), where)  # brackets in a name are no markup
        return table

    # The stream itself: while runs go on in this process, what they say goes elsewhere.
    console = Console(file=sys.stderr)
    with Live(get_renderable=draw_table, console=console, refresh_per_second=_PER_SECOND, transient=True, redirect_stderr=False):
        yield run_board.take_news
