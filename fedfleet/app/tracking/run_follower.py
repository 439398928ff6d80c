"""Following a run with sinks, live or from its journal: one that fails is named and not called again; the run never suffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fedfleet.app.spec import Spec
from fedfleet.app.tracking.points import follower
from fedfleet.app.tracking.sink import Metrics, Sink
from fedfleet.core.events import Event

Warn = Callable[[str], None]
Watch = Callable[[Sequence[Event]], None]


class RunFollower:
    """The sinks that still listen to one run; `done` are those that took it to its end. It has files to close: `end` does."""

    def __init__(self, sinks: Sequence[Sink], spec: Spec, name: str, warn: Warn) -> None:
        self._active, self._warn, self._points = list(sinks), warn, follower()
        self.done: list[str] = []
        self._spec, self._name, self._started = spec, name, False

    def on_events(self, events: Sequence[Event]) -> None:
        """Pass on what these events say."""
        if self._active:
            self._begin()
            for point in self._points(events):
                self._call_all(lambda sink, point=point: sink.write(point))

    def combined_with(self, other: Watch | None) -> Watch | None:
        """A listener for both; None where nothing listens, since every event of a run would pass through it."""
        if not self._active:
            return other

        def both(events: Sequence[Event]) -> None:
            if other is not None:
                other(events)
            self.on_events(events)

        return both

    def end(self, metrics: Metrics | None) -> None:
        """Pass on how the run ended, None if it did not, and close every sink; once. A run that never began leaves no trace."""
        if metrics is not None:
            self._begin()
        if self._started:
            self._call_all(lambda sink: sink.end(metrics))
        self.done += [sink.name for sink in self._active]
        self._active = []

    def _begin(self) -> None:
        if not self._started:
            self._started = True
            self._call_all(lambda sink: sink.begin(self._spec, self._name))

    def _call_all(self, call: Callable[[Sink], None]) -> None:
        for sink in list(self._active):
            try:
                call(sink)
            except Exception as error:  # a full disk, a server that is gone, a tool's own mistake
                self._active.remove(sink)
                reason = " ".join(str(error).split()) or type(error).__name__
                self._warn(f"{sink.name} failed and is not written to any more ({reason[:300]}); the run goes on")


@contextmanager
def follow_run(sinks: Sequence[Sink], spec: Spec, name: str, warn: Warn) -> Iterator[RunFollower]:
    """Sinks that follow a run; they are closed however it ends."""
    run_follower = RunFollower(sinks, spec, name, warn)
    try:
        yield run_follower
    finally:
        run_follower.end(None)


def export_events(
    sinks: Sequence[Sink], spec: Spec, name: str, events: Sequence[Event], metrics: Metrics | None, warn: Warn
) -> list[str]:
    """Write a whole journal to the sinks; the names of those that took it to the end."""
    with follow_run(sinks, spec, name, warn) as run_follower:
        run_follower.on_events(events)
        run_follower.end(metrics)
    return run_follower.done
