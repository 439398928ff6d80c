"""`fedfleet.run`: a spec, or your own PyTorch model on your own arrays; `load` and `replay` take up its folder."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedfleet.app.api.inputs import arrays, asked, folder_of, given, kept_in
from fedfleet.app.api.run_result import OnCommit, Result, Telling
from fedfleet.app.assemble import Setup, assemble, caveats, chance_of, doubts, executing
from fedfleet.app.pages.report_page import write_report
from fedfleet.app.runs import Finished, finished, perform, stored_weights
from fedfleet.app.runs.class_measures import with_classes
from fedfleet.app.runs.custom_task import Own, judged, reopened
from fedfleet.app.runs.privacy_facts import source_here, with_privacy
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.spec import Spec
from fedfleet.core.errors import BadInput, FedFleetError
from fedfleet.core.events import Event, without_sums
from fedfleet.core.parts import Task
from fedfleet.core.sources import World
from fedfleet.measure.summary import summary
from fedfleet.simulation.simulator import Hear, simulate
from fedfleet.store import journal as journals


def run(
    spec: str | Path | Mapping[str, Any],
    *overrides: str,
    model: Any = None,
    data: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    metrics: Mapping[str, Callable[[Any, Any], Any]] | None = None,
    on_commit: OnCommit | Sequence[OnCommit] = (),
    out: str | Path | None = None,
    keep_data: bool = True,
    resume: bool = False,
    trust_code: str | None = None,
) -> Result:
    """Train by a spec (a path or a nested dictionary), with `key=value` overrides.

    Args:
        model: your own PyTorch module, or a function or class that makes one without arguments.
        data: (inputs, integer labels) or (inputs, labels, owners) as arrays, a .npz or .safetensors file with arrays x, y and
            perhaps owner, or whatever `fedfleet.data` reads: a folder of per-client files, LEAF's JSON, a dataset.
        loss: a function (outputs, labels) that gives one value per sample, or their mean, as a tensor; default: cross-entropy.
        metrics: functions (outputs, labels) of arrays by name, asked about the last model on the central test set; what they
            say is in `result.metrics["own"]`.
        on_commit: called with each new model (see `Commit`); more than one may be given.
        out: the folder to write, with journal, model, measures, report, and what was given in `own/`. Without it nothing is
            written.
        keep_data: copy the inputs into the folder; otherwise it refers to the file that they came from, by path and hash, or
            they must be given again. Labels are always kept: decisions are checked against them.
        resume: go on from the last checkpoint in `out`; where there is none yet, begin, so that a script can be called again. What
            is not given again is taken from the folder.
        trust_code: the hash of the code in a folder, which is never run without it.

    >>> result = run({"task": {"use": "digits_logreg"}, "stop": {"rounds": 2}})
    >>> result.metrics["rounds"], result.rounds["round"].tolist()
    (2, [0, 1])

    >>> import numpy, torch
    >>> x = numpy.random.default_rng(0).normal(size=(200, 4))
    >>> world = {"world": {"clients": 5}, "pace": {"cohort": 2}, "stop": {"rounds": 3}}
    >>> result = run(world, model=torch.nn.Linear(4, 2), data=(x, (x.sum(1) > 0).astype(int)))
    >>> result.metrics["commits"], sorted(result.params)
    (3, ['bias', 'weight'])
    """
    folder = None if out is None else folder_of("out", out)
    if resume and folder is None:
        raise BadInput("resume: say which run to go on with, by its folder: out=..")
    telling = Telling(_callbacks(on_commit))
    own_parts = given(model, data, loss, metrics)
    resolved, own = asked(
        spec, overrides, own_parts, resumed=folder if resume else None, trust=trust_code, copied=keep_data
    )
    hear = telling.hear if telling.callbacks else None  # whoever listens costs a call for every event
    if folder is None:
        result = _in_memory(resolved, own, hear)
        telling.tell()
    else:
        done = perform(resolved, folder, resume=resume, own=own, trust=trust_code, hear=hear)
        telling.tell()
        write_report(done)
        result = _read(done)
    for warning in result.metrics["warnings"]:
        warnings.warn(warning, stacklevel=2)
    return result


def load(out: str | Path | Result) -> Result:
    """A finished run, from its folder."""
    return _read(finished(kept_in(out, "load")))


def replay(
    out: str | Path | Result,
    *,
    model: Any = None,
    data: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    quick: bool = False,
    trust_code: str | None = None,
) -> dict[str, Any]:
    """Audit a run from its folder, as `fedfleet replay` does; give what the folder of an own model cannot make again."""
    again = given(model, data, loss)
    again = replace(again, data=arrays(again.data))
    return replay_run(kept_in(out, "replay"), quick=quick, trust=trust_code, given=again)


def _callbacks(given: Any) -> list[OnCommit]:
    found: list[Any] = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    for one in found:
        if not callable(one):
            raise BadInput(f"on_commit: {one!r} is not a function; give one that takes a Commit")
    return found


def _in_memory(spec: Spec, own: Own | None, hear: Hear | None) -> Result:
    """A run of which nothing is written."""
    setup = assemble(spec, own.task if own else None)
    source_here(setup.plan.algorithm)  # whether its privacy can be accounted for
    for doubt in doubts(setup):
        warnings.warn(doubt, stacklevel=3)
    journal, events = journals.in_memory(), list[Event]()
    with executing(setup) as execute:
        done = simulate(
            setup.plan, setup.world, execute,
            journal=journal, watch=lambda more: events.extend(without_sums(more)), hear=hear,
        )  # fmt: skip
    params = done.state.server.params
    found = summary(events, chance=chance_of(setup.task), caveats=caveats(setup))
    found = with_classes(with_privacy(found, setup.plan, {}, events), setup.task, params)
    metrics = {
        **judged(own and replace(own, task=setup.task), params, found),
        "digest": journal.digest,
        "spec_digest": spec.digest,
    }
    return Result(metrics, setup.task.whole(params), events, None, lambda: setup.world, lambda: setup.task)


def _read(done: Finished) -> Result:
    return Result(
        done.metrics, stored_weights(done.out), done.events, done.out, lambda: _world_of(done), lambda: _task_of(done)
    )


def _world_of(done: Finished) -> World | None:
    """The world of a run's folder, built again; None if something that it needs is not here."""
    try:
        return _setup_of(done).world
    except FedFleetError:
        return None


def _task_of(done: Finished) -> Task:
    """The task of a run's folder as its algorithm trained it, built again."""
    return _setup_of(done).task


def _setup_of(done: Finished) -> Setup:
    own = reopened(done.out, done.spec)
    return assemble(done.spec, own.task if own else None)
