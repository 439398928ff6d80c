"""A worker of a study, `python -m fedfleet.app.studies.grid.study_worker`: it performs runs, given as specs and folders."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfleet.app.runs.run_folder import Finished
from fedfleet.app.spec import Spec, resolve
from fedfleet.app.studies.grid.joint_jobs import perform_joined
from fedfleet.core.errors import FedFleetError
from fedfleet.core.events import Event, ModelCommitted, RoundFailed, RunEnded
from fedfleet.executors.worker_pool import attend

if TYPE_CHECKING:
    from fedfleet.executors.stacked.form_choice import Form

_EVERY = 0.25  # seconds between two words about the same run


def piece_of(specs: Sequence[Spec], outs: Sequence[Path], form: Sequence[Any] | None = None) -> dict[str, Any]:
    """Runs that are performed together, as a worker gets them; `form`: that of their stacks, and its threads."""
    texts = [
        {"text": spec.toml(), "name": spec.name, "out": str(out.resolve())}
        for spec, out in zip(specs, outs, strict=True)
    ]
    return {"runs": texts, "form": form}


def work(piece: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Perform the runs of a piece, and tell on the way how far they are; the answer says why each failed, "" if it did not."""
    specs = [resolve(tomllib.loads(run["text"]), run["name"]) for run in piece["runs"]]
    outs = [Path(run["out"]) for run in piece["runs"]]
    found = perform_joined(specs, outs, watch=told_by(tell), resume=True, form=_form(piece["form"]))
    return {"failures": ["" if isinstance(one, Finished) else _why(one) for one in found]}


def _form(kept: Sequence[Any] | None) -> Form | None:
    if kept is None:
        return None
    from fedfleet.executors.stacked.form_choice import Form

    return Form(*kept)


def _why(wrong: Exception) -> str:
    return str(wrong) if isinstance(wrong, FedFleetError) else f"{type(wrong).__name__}: {wrong}"


def told_by(tell: Callable[[dict[str, Any]], None]) -> Callable[[int, Sequence[Event]], None]:
    """A listener that tells in which round each run is, now and then, and when it has ended."""
    said: dict[int, float] = {}

    def watch(i: int, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, RunEnded):
                tell({"run": i, "over": True})
            elif isinstance(event, ModelCommitted | RoundFailed):
                now = time.monotonic()
                if now - said.get(i, -_EVERY) >= _EVERY:
                    said[i] = now
                    tell({"run": i, "round": event.round + 1})

    return watch


if __name__ == "__main__":
    attend(work)
