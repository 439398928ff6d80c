"""Building the parts of a spec again in another process, from the spec's text alone: a device, a Ray worker, a server's judge."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedfleet.app.assemble.plan import assemble
from fedfleet.app.assemble.setup import Setup, check_pin
from fedfleet.app.spec import apply_overrides, resolve
from fedfleet.app.spec.spec_file import with_older_meaning
from fedfleet.core.parts import Algorithm, Executor

if TYPE_CHECKING:
    from fedfleet.network.evaluation.evaluators import EvalContext


def rebuild(text: str) -> Setup:
    """Everything that a spec's text names, with inline training; refused if it was meant with other frozen weights."""
    table = with_older_meaning(tomllib.loads(text))
    setup = assemble(resolve(apply_overrides(table, ["run.execute=inline", "run.device=cpu"])))
    check_pin(text, setup.task)
    return setup


def rebuild_for_worker(text: str) -> tuple[Algorithm, Executor]:
    """What a Ray worker needs of a spec. Stacked workers do not measure forms, because all must take the same one."""
    setup = rebuild(text)
    run = resolve(tomllib.loads(text)).run  # as the spec has it
    if run["ray_execute"] == "inline":
        return setup.plan.algorithm, setup.executor()
    from fedfleet.executors.stacked.executor import stacked_executor

    return setup.plan.algorithm, stacked_executor(
        setup.task, device=run["device"], threads=run["threads"], form="merged", tf32=run["tf32"]
    )


def rebuild_eval_context(facts: Mapping[str, Any]) -> EvalContext:
    """What a server's judge needs: `spec` is the text; `form` and `threads` are the stacked form of the run, where it has one.

    Models are judged by the kernel that the spec names, as a simulation would judge them.
    """
    from fedfleet.executors.stacked.form_choice import Form
    from fedfleet.network.evaluation.evaluators import EvalContext

    table = with_older_meaning(tomllib.loads(facts["spec"]))
    run = resolve(table).run
    kernel = run["ray_execute"] if run["execute"] == "ray" else run["execute"]
    setup = assemble(resolve(apply_overrides(table, [f"run.execute={kernel}"])))
    check_pin(facts["spec"], setup.task)
    form = Form(facts["form"], int(facts["threads"])) if facts.get("form") and kernel == "stacked" else None
    return EvalContext(setup.plan, setup.world, setup.executor(form))
