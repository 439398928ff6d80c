"""Who observes the work of a device: an emulated device is limited while it computes, and its tasks are recorded."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol

from fedfleet.network.protocol import fleet_pb2 as pb

# The last word on a report: the server has it, does not take it, or its lease ended before there was a word.
ReportEnd = Literal["safe", "refused", "late"]


class WorkObserver(Protocol):
    """Is told of the computation of each task, of each report, and of the last word on it."""

    def computing(self, work: pb.Work) -> AbstractContextManager[None]:
        """What surrounds the computation of a task."""
        ...

    def on_report(self, head: pb.Report) -> None:
        """A report is ready; a declined task is one that says why."""
        ...

    def on_end(self, head: pb.Report, end: ReportEnd) -> None:
        """There is a last word on a report."""
        ...


class NoObserver:
    """Observes nothing."""

    def computing(self, work: pb.Work) -> AbstractContextManager[None]:
        """Nothing surrounds it."""
        del work
        return nullcontext()

    def on_report(self, head: pb.Report) -> None:
        """Nobody is told."""

    def on_end(self, head: pb.Report, end: ReportEnd) -> None:
        """Nobody is told."""


NO_OBSERVER = NoObserver()
