"""Finished runs of a study or a search in tracking tools: each is written from its journal when it is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedfleet.app.runs import open_run, read_finished_run
from fedfleet.app.tracking.run_follower import export_events
from fedfleet.app.tracking.sink import Sink, sinks_of
from fedfleet.core.errors import FedFleetError
from fedfleet.store.seals import SEAL

Warn = Callable[[str], None]


def export_run(folder: Path, sinks: Sequence[Sink], warn: Warn, name: str | None = None) -> list[str]:
    """Write a run, finished or not, to these sinks from its journal; the names of those that took it to the end."""
    spec, events, _ = open_run(folder)
    metrics = read_finished_run(folder).metrics if (folder / SEAL).is_file() else None
    return export_events(sinks, spec, name or folder.resolve().name, events, metrics, warn)


@dataclass(slots=True)
class RunTracker:
    """Writes each run once; a tool that fails is named and gets no more runs. Warnings wait in `warnings`: while runs go on in this
    process, what they say goes to a log."""

    words: list[str]
    warnings: list[str] = field(default_factory=list[str])
    written: set[Path] = field(default_factory=set[Path])

    def write(self, folder: Path, name: str | None = None) -> None:
        """Write the run in this folder, unless that has been done."""
        if not self.words or folder in self.written:
            return
        self.written.add(folder)
        try:
            self.words = export_run(folder, sinks_of(self.words), self.warnings.append, name)
        except FedFleetError as error:  # a run that cannot be read says so in the study itself
            self.warnings.append(f"the run in {folder} is not tracked: {error}")


def run_tracker(words: str | Sequence[str]) -> RunTracker:
    """A tracker to these targets; words that are wrong and packages that are missing are reported now."""
    return RunTracker([sink.name for sink in sinks_of(words)])
