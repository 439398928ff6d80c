"""A progress bar for runs on standard error, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fedfleet.core.events import Evaluated, Event, ModelCommitted, RoundFailed


@contextmanager
def progress(rounds: int, *, quiet: bool = False, label: str = "training") -> Iterator:
    """A function that takes events as they come and moves the bar; None if standard error is not a terminal."""
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
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=rounds, note="")

        def watch(events: Sequence[Event]) -> None:
            for event in events:
                if isinstance(event, ModelCommitted | RoundFailed):
                    bar.advance(task)
                elif isinstance(event, Evaluated) and event.total:
                    bar.update(task, note=f"accuracy {event.correct / event.total:.3f} at {event.time:,.0f} s")

        yield watch
