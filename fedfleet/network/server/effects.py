"""What a component of the server asks of the loop: plain records, which the loop carries out in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fedfleet.core.commands import Evaluate, Gather
from fedfleet.core.events import Fact
from fedfleet.network.protocol import inside_pb2 as inside


class Tell(NamedTuple):
    """This goes out at the end of the turn: to one frontend, or to all that are ready, `but` perhaps one."""

    message: inside.ToTransmitter
    frontend: int | None = None
    but: int | None = None


class TellNow(NamedTuple):
    """This goes to one frontend before everything of this turn, as soon as the journal is on the disk."""

    message: inside.ToTransmitter
    frontend: int


class React(NamedTuple):
    """The coordinator takes this fact at once; after the end of its task's round, an arrival or a loss is left out."""

    fact: Fact


class ReactLater(NamedTuple):
    """The coordinator takes this fact when it has taken all that are at hand; its time is moved on if need be."""

    fact: Fact


class Note(NamedTuple):
    """A sentence for the journal and the log."""

    text: str
    level: Literal["info", "warning"] = "warning"


class ReportMeta(NamedTuple):
    """What a device reported with its update: the weight, and statistics by name. Small, since there is one for every report."""

    weight: float
    names: tuple[str, ...]
    values: tuple[float, ...]

    def stats(self) -> dict[str, float]:
        """By name."""
        return dict(zip(self.names, self.values, strict=True))


@dataclass(frozen=True, slots=True)
class CommitJob:
    """Everything that a commit needs: what is asked for, which reports were rejected already, and where the reports are."""

    command: Gather
    bucket: int
    refusals: Mapping[int, str]
    metas: Mapping[int, ReportMeta]
    sums: Sequence[str]  # files of partial sums
    count: int  # of reports in them
    spools: Sequence[str]  # folders, where reports were spooled instead


class StartCommit(NamedTuple):
    """All sums are here: make a model of them in the background."""

    job: CommitJob


class StartEvaluation(NamedTuple):
    """The server's own evaluator tries a model in the background, on the clients' shards too if that is asked."""

    command: Evaluate
    shards: bool


Effect = Tell | TellNow | React | ReactLater | Note | StartCommit | StartEvaluation
Effects = list[Effect]


def tell_withdrawn(tasks: Sequence[int], *, frontend: int | None = None, but: int | None = None) -> Tell:
    """Devices are not given these tasks any more."""
    return Tell(inside.ToTransmitter(withdrawn=tasks), frontend, but)
