"""What decides the bits of a run beside its spec: how it computes, on which processor, with which versions of the libraries.

A run writes this down when it begins (`executor.json`); whoever resumes it adopts it or is refused; whoever replays it knows
whether the models can be expected to come out the same here.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfleet.app.assemble.executor_choice import fastest_form
from fedfleet.app.assemble.setup import Setup
from fedfleet.app.runs.extra_measures import noise_source
from fedfleet.app.spec import Spec
from fedfleet.choose.report_bounds import bounded
from fedfleet.core.errors import BadInput
from fedfleet.core.json_text import parse_json
from fedfleet.executors.hardware import hardware_name
from fedfleet.store.files import write_atomically

if TYPE_CHECKING:
    from fedfleet.executors.stacked.form_choice import Form

FILE = "executor.json"
_FORM = "fedfleet/executor@1"
_LIBRARIES = ("numpy", "torch", "scipy", "scikit-learn")
# Of an executor that needs more.
_MORE_LIBRARIES = {"mnn": ("MNN",)}
_STORED_KEYS = ("execute", "ray_execute", "device", "threads", "tf32")


@dataclass(frozen=True, slots=True)
class Conditions:
    """How a run computes. `form` and `form_threads` are those of a stacked executor; `seconds` says why they were chosen;
    `noise` where that of a private run comes from, without any secret.

    `frozen` is the hash of the weights that nobody trains, which are in no checkpoint; "": there are none. `bounded`: a server put
    bounds around the spec's selector.
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
    bounded: bool = False

    @property
    def kernel(self) -> str:
        """What trains: workers of a cluster train as one process does, to the last bit."""
        if self.execute == "ray":
            return self.ray_execute
        return self.execute if self.execute in ("stacked", "numpy", "mnn") else "inline"

    def stacked_form(self) -> Form | None:
        """The form to make the executor in."""
        if self.kernel != "stacked":
            return None
        from fedfleet.executors.stacked.form_choice import Form

        return Form(self.form, self.form_threads, self.seconds)


def local_conditions(setup: Setup, form: Form | None = None) -> Conditions:
    """How a run of this spec computes on this machine; the stacked form is measured unless it is given."""
    run = setup.spec.run
    run_values = {name: run[name] for name in _STORED_KEYS}
    if run["execute"] == "stacked":
        form = form or fastest_form(setup.spec, setup.task)
        form_values = {"form": form.name, "form_threads": form.threads, "seconds": form.seconds}
    else:
        kernel = run["ray_execute"] if run["execute"] == "ray" else "inline"
        form_values = {"form": "merged" if kernel == "stacked" else "inline", "form_threads": run["threads"]}
    extra = {"noise": noise_source(setup.plan.algorithm), "frozen": setup.task.frozen_name}
    return Conditions(
        **run_values, **form_values, processor=hardware_name(run["device"]), versions=_versions(run["execute"]), **extra
    )


def write_conditions(folder: Path, conditions: Conditions) -> None:
    """Write them into the folder of a run."""
    write_atomically(folder / FILE, (json.dumps({"format": _FORM, **asdict(conditions)}, indent=1) + "\n").encode())


def stored_conditions(folder: Path) -> Conditions:
    """Those that a run began with."""
    path = folder / FILE
    try:
        body: dict[str, Any] = parse_json(path.read_bytes())
        if body.pop("format") != _FORM:
            raise ValueError("it has another format")
        result = Conditions(**body)
        wrong = next((name for name, kind in _KINDS.items() if not _is_of(getattr(result, name), kind)), None)
        if wrong is not None:
            raise ValueError(f"{wrong} has another type")
        return result
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{path} is missing or damaged ({error}); without this file it is unknown how the run computed; restore it"
        ) from None


def with_bounds(setup: Setup, conditions: Conditions) -> Setup:
    """The setup with bounds around its selector, if the run has them."""
    if not conditions.bounded:
        return setup
    return replace(setup, plan=replace(setup.plan, choose=bounded(setup.plan.choose)))


# What each field holds; of a dictionary the kind of its values, whose keys are text.
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("execute", "ray_execute", "device", "form", "processor", "frozen"), str),
    **dict.fromkeys(("tf32", "bounded"), bool),
    "threads": int, "form_threads": int, "versions": (str,), "noise": (str,), "seconds": (float, int),
}  # fmt: skip


def _is_of(value: Any, kind: type | tuple[type, ...]) -> bool:
    if isinstance(kind, tuple):
        return isinstance(value, dict) and all(isinstance(one, kind) for one in value.values())
    return type(value) is kind


def adopt_conditions(spec: Spec, stored: Conditions) -> tuple[Spec, list[str]]:
    """The spec with what the run began with, and a remark for everything that was asked differently now."""
    run = dict(spec.run)
    if stored.kernel == Conditions(**_with_executor(stored, run)).kernel:  # a cluster may come and go: it changes no bit
        stored = replace(stored, execute=run["execute"], ray_execute=run["ray_execute"])
    remarks = [
        f"run.{name} = {run[name]!r} was given, but the run started with {getattr(stored, name)!r} and keeps it, "
        "because this setting decides the last bits of the results"
        for name in _STORED_KEYS
        if run[name] != getattr(stored, name) and not (run["execute"] == "auto" and name == "execute")
    ]
    return replace(spec, run=run | {name: getattr(stored, name) for name in _STORED_KEYS}), remarks


def single_machine_spec(spec: Spec, stored: Conditions) -> Spec:
    """The spec with what the run began with, on one machine; where the accelerator is not here, on the processor."""
    device = stored.device if missing_condition(stored) is None else "cpu"
    run = {"execute": stored.kernel, "device": device, "threads": stored.threads, "tf32": stored.tf32}
    return replace(spec, run={**spec.run, **run})


def missing_condition(stored: Conditions) -> str | None:
    """What is not here of what a run computed with, in words; None: everything is."""
    versions = _versions(stored.execute)
    for name, version in stored.versions.items():
        if versions.get(name) != version:
            return f"{name} {version} (here: {versions.get(name, 'none')})"
    local_processor = hardware_name(stored.device)
    return None if local_processor == stored.processor else f"the processor {stored.processor!r} (here: {local_processor!r})"


def refuse_other_machine(folder: Path, stored: Conditions) -> None:
    """Refuse to go on where the bits could come out otherwise."""
    missing = missing_condition(stored)
    if missing is not None:
        raise BadInput(
            f"{folder} was started with {missing}: resuming it here could change its results in the last bits; resume it where "
            "that "
            "is available, or start again in another folder with --out"
        )


def refuse_other_weights(folder: Path, stored: Conditions, setup: Setup) -> None:
    """Refuse to go on from, or to audit by, other frozen weights than the run began with."""
    if stored.frozen != setup.task.frozen_name:
        raise BadInput(
            f"{folder} was started with other frozen weights than task.backbone gives here (hash {stored.frozen[:16] or 'none'}); "
            "restore that weights file, or start again in another folder with --out"
        )


def _with_executor(stored: Conditions, run: dict[str, Any]) -> dict[str, Any]:
    return {**asdict(stored), "execute": run["execute"], "ray_execute": run["ray_execute"]}


@cache
def _versions(execute: str) -> dict[str, str]:
    """Read once: the versions of what is loaded do not change, and to find them in their packages takes 20 ms."""
    result: dict[str, str] = {}
    for name in (*_LIBRARIES, *_MORE_LIBRARIES.get(execute, ())):
        try:
            result[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return result
