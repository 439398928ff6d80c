"""A progress bar for runs on standard error, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fedfleet.core.events import Event
from fedfleet.measure.run_progress import Progress as RunProgress


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
        run = RunProgress()

        def watch(events: Sequence[Event]) -> None:
            for event in events:
                run.on(event)
            done = run.closed_count if commits is None else run.commits
            failed = f"{run.failed_rounds} failed" if run.failed_rounds else ""
            tried = next((e for e in reversed(run.evaluations) if e.total), None)
            note = "" if tried is None else f"{run.score_name} {tried.accuracy:.3f} at {tried.time:,.0f} s"
            bar.update(task, completed=done, failed=failed, note=note)

        yield watch
