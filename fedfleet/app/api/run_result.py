"""What a run gives back in Python, and what it tells while it runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedfleet.app.terminal.text import span
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Evaluated, Event, ModelCommitted
from fedfleet.core.parts import Task
from fedfleet.core.sources import World
from fedfleet.core.trees import Tree
from fedfleet.measure.run_tables import Columns, client_columns, round_columns
from fedfleet.measure.score_info import score_info_of
from fedfleet.simulation.simulator import Simulation

# What people look for in a result, and where it is.
_GUESSED = {
    "history": "rounds, a row for each round", "curve": "rounds, a row for each round", "losses": "rounds['loss']",
    "accuracies": "rounds['accuracy']", "model": "module()", "net": "module()", "weights": "params", "parameters": "params",
    "state_dict": "params", "folder": "out", "path": "out", "warnings": "metrics['warnings']", "log": "events",
    "summary": "metrics",
}  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """The result of a run: its measures by name, the model's parameters (with what was frozen), the events, and its folder."""

    metrics: dict[str, Any]
    params: Tree
    events: list[Event]
    out: Path | None
    _world: Callable[[], World | None] = field(default=lambda: None, repr=False, compare=False)
    _task: Callable[[], Task | None] = field(default=lambda: None, repr=False, compare=False)

    def __repr__(self) -> str:
        metrics, where = self.metrics, "" if self.out is None else f"; {self.out}"
        if "rounds" not in metrics:
            return f"Result({len(self.events)} events{where})"
        score = score_info_of(metrics)
        accuracy = f"no {score.name}" if metrics.get("accuracy") is None else score.named(metrics["accuracy"])
        return (
            f"Result({accuracy} after {metrics['rounds']} rounds, {metrics['commits']} models, "
            f"{span(metrics['virtual_seconds'])} of virtual time{where})"
        )

    def __getattr__(self, name: str) -> Any:
        """Only for names that a result does not have: where the thing is that people look for."""
        if name.startswith("_"):  # copy and pickle ask for such names
            raise AttributeError(name)
        place = _GUESSED.get(name) or (f"metrics[{name!r}]" if name in self.metrics else "")
        known = f"it has metrics, rounds, clients, params, events, out and module(), and metrics has {', '.join(self.metrics)}"
        raise AttributeError(f"a result has no attribute {name!r}; {f'use result.{place}' if place else known}")

    def module(self) -> Any:
        """The trained model as a PyTorch module, ready to be asked: frozen weights and prompts inside."""
        from fedfleet.tasks.task_checks import module_of

        task = self._task()
        if task is None:
            raise BadInput("this result does not know its task; load it from its folder with fedfleet.load(..)")
        return module_of(task, self.params)

    @property
    def rounds(self) -> Columns:
        """One row per round, as columns: `pandas.DataFrame(result.rounds)`."""
        return round_columns(self.events)

    @property
    def clients(self) -> Columns:
        """One row per client, as columns: `pandas.DataFrame(result.clients)`."""
        world = self._world()
        if world is None:
            return client_columns(self.events)
        return client_columns(self.events, kinds=world.devices.kinds, samples=world.data.sizes(0))


@dataclass(frozen=True, slots=True)
class Commit:
    """A new model: in which round, its version, when in virtual time, and how it did on the central test set if it was tried."""

    round: int
    version: int
    time: float
    accuracy: float | None
    loss: float | None
    server: Tree = field(repr=False, compare=False)

    @property
    def params(self) -> Tree:
        """A copy of the model's parameters, made when it is asked for."""
        return {name: value.copy() for name, value in self.server.items()}


OnCommit = Callable[[Commit], object]


@dataclass(slots=True)
class CommitNotifier:
    """Tells callbacks of each commit, once it is known whether the model was evaluated. A run waits for them, and no more:
    one that fails is named in a warning and not called again, and the run continues."""

    callbacks: list[OnCommit]
    pending: tuple[ModelCommitted, Tree] | None = None

    def on_events(self, sim: Simulation, events: Sequence[Event]) -> None:
        """Take events as they come: the evaluation of a new model is the very next fact, if there is one at all."""
        if self.pending is not None:
            self.notify(events[0] if isinstance(events[0], Evaluated) else None)
        commits = [event for event in events if isinstance(event, ModelCommitted)]
        if commits:
            self.pending = commits[0], sim.state.server.params

    def notify(self, evaluation: Evaluated | None = None) -> None:
        """Tell of the commit that waits, if one does."""
        if self.pending is None:
            return
        (commit_event, params), self.pending = self.pending, None
        score = evaluation if evaluation is not None and evaluation.version == commit_event.version and evaluation.total else None
        accuracy, loss = (None, None) if score is None else (score.correct / score.total, score.loss)
        commit = Commit(commit_event.round, commit_event.version, commit_event.time, accuracy, loss, params)
        for callback in tuple(self.callbacks):
            try:
                callback(commit)
            except Exception as error:
                self.callbacks.remove(callback)
                name = getattr(callback, "__name__", type(callback).__name__)
                warnings.warn(
                    f"on_commit: {name} failed at version {commit.version} ({type(error).__name__}: {error}); it is not called "
                    "again, and the run continues",
                    stacklevel=2,
                )
