"""Following a run with sinks, live or from its journal: one that fails is named and not called again; the run never suffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fedfleet.app.spec import Spec
from fedfleet.app.tracking.points import follower
from fedfleet.app.tracking.sink import Metrics, Sink
from fedfleet.core.events import Event

Say = Callable[[str], None]
Watch = Callable[[Sequence[Event]], None]


class Following:
    """The sinks that still listen to one run; `done` are those that took it to its end. It has files to close: `end` does."""

    def __init__(self, sinks: Sequence[Sink], spec: Spec, name: str, warn: Say) -> None:
        self._left, self._warn, self._points = list(sinks), warn, follower()
        self.done: list[str] = []
        self._spec, self._name, self._begun = spec, name, False

    def hear(self, events: Sequence[Event]) -> None:
        """Pass on what these events say."""
        if self._left:
            self._begin()
            for point in self._points(events):
                self._all(lambda sink, point=point: sink.write(point))

    def heard_with(self, other: Watch | None) -> Watch | None:
        """A listener for both; None where nobody listens, since every event of a run would pass through it."""
        if not self._left:
            return other

        def both(events: Sequence[Event]) -> None:
            if other is not None:
                other(events)
            self.hear(events)

        return both

    def end(self, metrics: Metrics | None) -> None:
        """Pass on how the run ended, None if it did not, and close every sink; once. A run that never began leaves no trace."""
        if metrics is not None:
            self._begin()
        if self._begun:
            self._all(lambda sink: sink.end(metrics))
        self.done += [sink.name for sink in self._left]
        self._left = []

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._all(lambda sink: sink.begin(self._spec, self._name))

    def _all(self, call: Callable[[Sink], None]) -> None:
        for sink in list(self._left):
            try:
                call(sink)
            except Exception as wrong:  # a full disk, a server that is gone, a tool's own mistake
                self._left.remove(sink)
                said = " ".join(str(wrong).split()) or type(wrong).__name__
                self._warn(f"{sink.name} failed and is not written to any more ({said[:300]}); the run goes on")


@contextmanager
def following(sinks: Sequence[Sink], spec: Spec, name: str, warn: Say) -> Iterator[Following]:
    """Sinks that follow a run; they are closed however it ends."""
    found = Following(sinks, spec, name, warn)
    try:
        yield found
    finally:
        found.end(None)


def exported(
    sinks: Sequence[Sink], spec: Spec, name: str, events: Sequence[Event], metrics: Metrics | None, warn: Say
) -> list[str]:
    """Write a whole journal to the sinks; the names of those that took it to the end."""
    with following(sinks, spec, name, warn) as found:
        found.hear(events)
        found.end(metrics)
    return found.done
