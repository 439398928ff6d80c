"""A moment that goes back through a round: each step gives the time that it passes to one cause, so that nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from fedfleet.core.stages import STAGES
from fedfleet.measure.attribution.causes import REACHABILITY, UNKNOWN, Blame, Cutting

# How many seconds of work a client's task had done by a time: (client, when it was sent, time).
Progress = Callable[[int, float, float], float]
Stages = Mapping[str, float]  # of one task; NaN: unknown
_ROUNDINGS = 64  # roundings of a time, beyond which a difference is one
_DELIVERY = STAGES[-1]


@dataclass(frozen=True, slots=True)
class PathTask:
    """One task on the critical path; without `stages` nobody knows what its time went into."""

    client: int
    sent: float
    ended: float
    stages: Stages | None


@dataclass(slots=True)
class PathCursor:
    """The way back from a closing: `at` is how far it has come, `floor` where it ends."""

    at: float
    floor: float
    blame: Blame
    progress: Progress | None = None
    parts: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    cutting: Cutting = "none"

    def back_to(self, moment: float, cause: str, clients: Collection[int] = ()) -> None:
        """The time since `moment` went into this cause; what lies before the floor is another round's affair."""
        target = min(max(moment, self.floor), self.at)
        if target < self.at:
            self.parts.append((cause, self.at - target))
            self.blame.add(cause, clients, self.at - target)
            self.at = target

    def walk_task(self, task: PathTask) -> None:
        """The time since this task was sent went into its stages; what they leave it was out of reach, or is unknown."""
        low = min(max(task.sent, self.floor), self.at)
        clients = (task.client,)
        stages = task.stages
        rest = UNKNOWN if stages is None or any(np.isnan(v) for v in stages.values()) else REACHABILITY
        known = {n: stages[n] for n in STAGES if n in stages and stages[n] > 0} if stages else {}
        parts = self._stages_since(task, known, low, exact=rest == REACHABILITY)
        before = len(self.parts)
        for name in reversed([n for n in STAGES if parts.get(n, 0.0) > 0]):
            self.back_to(max(self.at - parts[name], low), name, clients)
        if len(self.parts) > before and self.at - low <= _ROUNDINGS * np.spacing(task.ended):  # no wait, but a rounding
            cause, seconds = self.parts.pop()
            self.parts.append((cause, seconds + (self.at - low)))
            self.at = low
        self.back_to(low, rest, clients)

    def _stages_since(self, task: PathTask, known: Stages, low: float, *, exact: bool) -> dict[str, float]:
        """How much of each stage was carried out from `low` on."""
        if low <= task.sent:
            return dict(known)
        delivery = known.get(_DELIVERY, 0.0)
        done, work = task.ended - delivery, {n: v for n, v in known.items() if n != _DELIVERY}
        total = sum(work.values())
        if low >= done:
            return {_DELIVERY: delivery}  # as much of it as the way back has room for
        if self.progress is not None and exact:
            before = min(max(self.progress(task.client, task.sent, low), 0.0), total)
            self.cutting = "world" if self.cutting == "none" else self.cutting
        else:
            before = total * (low - task.sent) / (done - task.sent)
            self.cutting = "evenly"
        result, elapsed = dict[str, float](), 0.0
        for name, seconds in work.items():
            result[name] = max(0.0, elapsed + seconds - max(elapsed, before))
            elapsed += seconds
        return result | ({_DELIVERY: delivery} if delivery else {})
