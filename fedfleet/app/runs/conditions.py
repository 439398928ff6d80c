"""What decides the bits of a run beside its spec: how it computes, on which processor, with which versions of the libraries.

A run writes this down when it begins (`executor.json`); whoever resumes it adopts it or is refused; whoever replays it knows
whether the models can be expected to come out the same here.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfleet.app.assemble.executor_choice import fastest_form
from fedfleet.app.assemble.setup import Setup
from fedfleet.app.runs.privacy_facts import source_here
from fedfleet.app.spec import Spec
from fedfleet.core.errors import BadInput
from fedfleet.executors.processor_name import processor
from fedfleet.store.files import write_whole

if TYPE_CHECKING:
    from fedfleet.executors.stacked.form_choice import Form

FILE = "executor.json"
_FORM = "fedfleet/executor@1"
_LIBRARIES = ("numpy", "torch", "scipy", "scikit-learn")
_ADOPTED = ("execute", "ray_execute", "device", "threads", "tf32")


@dataclass(frozen=True, slots=True)
class Conditions:
    """How a run computes. `form` and `form_threads` are those of a stacked executor; `seconds` says why they were chosen;
    `noise` where that of a private run comes from, without any secret.

    `frozen` is the hash of the weights that nobody trains, which are in no checkpoint; "": there are none.
    """

    execute: str
    ray_execute: str
    device: str
    threads: int
    tf32: bool
    form: str
    form_threads: int
    processor: str
    versions: dict[str, str]
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    noise: dict[str, str] = field(default_factory=dict[str, str])
    frozen: str = ""

    @property
    def kernel(self) -> str:
        """What trains: workers of a cluster train as one process does, to the last bit."""
        if self.execute == "ray":
            return self.ray_execute
        return "stacked" if self.execute == "stacked" else "inline"

    def stacked_form(self) -> Form | None:
        """The form to make the executor in."""
        if self.kernel != "stacked":
            return None
        from fedfleet.executors.stacked.form_choice import Form

        return Form(self.form, self.form_threads, self.seconds)


def conditions_here(setup: Setup, form: Form | None = None) -> Conditions:
    """How a run of this spec computes on this machine; the stacked form is measured unless it is given."""
    run = setup.spec.run
    asked = {name: run[name] for name in _ADOPTED}
    if run["execute"] == "stacked":
        form = form or fastest_form(setup.spec, setup.task)
        chosen = {"form": form.name, "form_threads": form.threads, "seconds": form.seconds}
    else:
        inside = run["ray_execute"] if run["execute"] == "ray" else "inline"
        chosen = {"form": "merged" if inside == "stacked" else "inline", "form_threads": run["threads"]}
    more = {"noise": source_here(setup.plan.algorithm), "frozen": setup.task.frozen_name}
    return Conditions(**asked, **chosen, processor=processor(run["device"]), versions=_versions(), **more)


def keep_conditions(folder: Path, conditions: Conditions) -> None:
    """Write them into the folder of a run."""
    write_whole(folder / FILE, (json.dumps({"format": _FORM, **asdict(conditions)}, indent=1) + "\n").encode())


def kept_conditions(folder: Path) -> Conditions:
    """Those that a run began with."""
    path = folder / FILE
    try:
        body: dict[str, Any] = json.loads(path.read_bytes())
        if body.pop("format") != _FORM:
            raise ValueError("it has another format")
        found = Conditions(**body)
        if not all(isinstance(getattr(found, n), str) for n in ("execute", "device", "form", "processor", "frozen")):
            raise ValueError("it holds what no run writes")
        return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise BadInput(
            f"{path} is missing or damaged ({wrong}); without it nobody knows how the run computed"
        ) from None


def adopted(spec: Spec, kept: Conditions) -> tuple[Spec, list[str]]:
    """The spec with what the run began with, and a remark for everything that was asked differently now."""
    run = dict(spec.run)
    if kept.kernel == Conditions(**_like(kept, run)).kernel:  # a cluster may come and go: it changes no bit
        kept = replace(kept, execute=run["execute"], ray_execute=run["ray_execute"])
    remarks = [
        f"run.{name} = {run[name]!r} was asked, but the run began with {getattr(kept, name)!r} and goes on with it, "
        "since it decides the last bits"
        for name in _ADOPTED
        if run[name] != getattr(kept, name) and not (run["execute"] == "auto" and name == "execute")
    ]
    return replace(spec, run=run | {name: getattr(kept, name) for name in _ADOPTED}), remarks


def alone(spec: Spec, kept: Conditions) -> Spec:
    """The spec with what the run began with, on one machine; where the accelerator is not here, on the processor."""
    here = kept.device if unlike(kept) is None else "cpu"
    run = {"execute": kept.kernel, "device": here, "threads": kept.threads, "tf32": kept.tf32}
    return replace(spec, run={**spec.run, **run})


def unlike(kept: Conditions) -> str | None:
    """What is not here of what a run computed with, in words; None: everything is."""
    here = _versions()
    for name, version in kept.versions.items():
        if here.get(name) != version:
            return f"{name} {version} (here: {here.get(name, 'none')})"
    found = processor(kept.device)
    return None if found == kept.processor else f"the processor {kept.processor!r} (here: {found!r})"


def refuse_unlike(folder: Path, kept: Conditions) -> None:
    """Refuse to go on where the bits could come out otherwise."""
    missing = unlike(kept)
    if missing is not None:
        raise BadInput(
            f"{folder} was begun with {missing}: going on here could change its bits; "
            "resume it where that is, or begin again in another folder with --out"
        )


def refuse_other_weights(folder: Path, kept: Conditions, setup: Setup) -> None:
    """Refuse to go on from, or to audit by, other frozen weights than the run began with."""
    if kept.frozen != setup.task.frozen_name:
        raise BadInput(
            f"{folder} was begun with other frozen weights than task.backbone gives here (hash {kept.frozen[:16] or 'none'}); "
            "bring that file of weights back, or begin again in another folder with --out"
        )


def _like(kept: Conditions, run: dict[str, Any]) -> dict[str, Any]:
    return {**asdict(kept), "execute": run["execute"], "ray_execute": run["ray_execute"]}


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
