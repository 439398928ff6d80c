"""What a worker of a study does: it performs runs, given as specs and folders."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfleet.app.runs.run_folder import FinishedRun
from fedfleet.app.spec import Spec, resolve
from fedfleet.app.studies.grid.joint_jobs import perform_together
from fedfleet.core.errors import FedFleetError
from fedfleet.core.events import Event
from fedfleet.measure.run_progress import Progress

if TYPE_CHECKING:
    from fedfleet.executors.stacked.form_choice import Form

_EVERY = 0.25  # seconds between two messages about the same run


def piece_of(specs: Sequence[Spec], outs: Sequence[Path], form: Sequence[Any] | None = None) -> dict[str, Any]:
    """Runs that are performed together, as a worker gets them; `form`: that of their stacks, and its threads."""
    texts = [{"text": spec.toml(), "name": spec.name, "out": str(out.resolve())} for spec, out in zip(specs, outs, strict=True)]
    return {"runs": texts, "form": form}


def work(piece: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Perform the runs of a piece, and report progress on the way; the answer says why each failed, "" if it did not."""
    specs = [resolve(tomllib.loads(run["text"]), run["name"]) for run in piece["runs"]]
    outs = [Path(run["out"]) for run in piece["runs"]]
    result = perform_together(specs, outs, watch=progress_listener(tell), resume=True, form=_form(piece["form"]))
    return {"failures": ["" if isinstance(one, FinishedRun) else _reason(one) for one in result]}


def _form(settings: Sequence[Any] | None) -> Form | None:
    if settings is None:
        return None
    from fedfleet.executors.stacked.form_choice import Form

    return Form(*settings)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, FedFleetError) else f"{type(error).__name__}: {error}"


def progress_listener(tell: Callable[[dict[str, Any]], None]) -> Callable[[int, Sequence[Event]], None]:
    """A listener that tells in which round each run is, now and then, and when it has ended."""
    runs: dict[int, Progress] = {}
    last_sent: dict[int, float] = {}

    def watch(i: int, events: Sequence[Event]) -> None:
        run = runs.setdefault(i, Progress())
        closed, ended = run.closed_count, run.ended
        for event in events:
            run.on(event)
        now = time.monotonic()
        if run.closed_count > closed and now - last_sent.get(i, -_EVERY) >= _EVERY:
            last_sent[i] = now
            tell({"run": i, "round": run.round})
        if run.ended != ended:
            tell({"run": i, "over": True})

    return watch
