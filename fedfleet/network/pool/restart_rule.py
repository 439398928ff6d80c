"""When a device process that died is started again: after a pause that doubles with each death, and not for ever."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RestartRule:
    """The first pause, the longest one, after how many deaths a device stays down, and after how long a life they are forgotten."""

    first: float = 0.5
    longest: float = 30.0
    limit: int = 10
    calm: float = 60.0


@dataclass(slots=True)
class Restarts:
    """The deaths of one device under a rule; `total` counts all of them, `recent` those that are not forgotten."""

    rule: RestartRule = field(default_factory=RestartRule)
    total: int = 0
    recent: int = 0

    def pause(self, lived: float) -> float | None:
        """How long to wait before the device starts again, which died after so many seconds; None: it stays down.

        >>> deaths = Restarts(RestartRule(first=1.0, longest=3.0, limit=3))
        >>> [deaths.pause(0.1) for _ in range(4)]
        [1.0, 2.0, 3.0, None]
        """
        self.total += 1
        self.recent = 1 if lived >= self.rule.calm else self.recent + 1
        if self.recent > self.rule.limit:
            return None
        return min(self.rule.longest, self.rule.first * 2.0 ** min(self.recent - 1, 64))
