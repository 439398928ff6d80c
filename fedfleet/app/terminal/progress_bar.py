"""A progress bar for runs on standard error, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fedfleet.core.events import Evaluated, Event, ModelCommitted, RoundFailed


@contextmanager
def progress(rounds: int, commits: int | None = None, *, quiet: bool = False, label: str = "training") -> Iterator:
    """A function that takes events as they come and moves the bar; None if standard error is not a terminal.

    The bar counts rounds, or models where a run ends after so many `commits`; failed rounds are counted beside it.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        TextColumn("{task.fields[failed]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=rounds if commits is None else commits, note="", failed="")
        failed = 0

        def watch(events: Sequence[Event]) -> None:
            nonlocal failed
            for event in events:
                if isinstance(event, RoundFailed):
                    failed += 1
                    bar.update(task, failed=f"{failed} failed")
                if isinstance(event, ModelCommitted) or (isinstance(event, RoundFailed) and commits is None):
                    bar.advance(task)
                elif isinstance(event, Evaluated) and event.total:
                    bar.update(task, note=f"accuracy {event.correct / event.total:.3f} at {event.time:,.0f} s")

        yield watch
