"""Building the parts of a spec again in another process, from the spec's text alone: a device, or a Ray worker."""

from __future__ import annotations

import tomllib

from fedfleet.app.assemble.pinning import check_pin
from fedfleet.app.assemble.plan import assemble
from fedfleet.app.assemble.setup import Setup
from fedfleet.app.spec import resolve, with_words
from fedfleet.core.parts import Algorithm, Executor


def rebuild(text: str) -> Setup:
    """Everything that a spec's text names, with inline training; refused if it was meant with other frozen weights."""
    setup = assemble(resolve(with_words(tomllib.loads(text), ["run.execute=inline", "run.device=cpu"])))
    check_pin(text, setup.task)
    return setup


def rebuild_kit(text: str) -> tuple[Algorithm, Executor]:
    """What a Ray worker needs of a spec. Stacked workers do not measure forms, because all must take the same one."""
    setup = rebuild(text)
    run = resolve(tomllib.loads(text)).run  # as the spec has it
    if run["ray_execute"] == "inline":
        return setup.plan.algorithm, setup.executor()
    from fedfleet.runtime.executors.stacked.executor import stacked

    return setup.plan.algorithm, stacked(
        setup.task, device=run["device"], threads=run["threads"], form="merged", tf32=run["tf32"]
    )
