"""`fedfleet.run`: a spec, or your own PyTorch model on your own arrays; `load` and `replay` take up its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedfleet.app.api.inputs import (
    arrays,
    as_path,
    has_custom_task,
    read_user_data,
    resolve_inputs,
    result_folder,
    take_inputs,
    user_inputs,
)
from fedfleet.app.api.own_task import Columns
from fedfleet.app.api.run_result import CommitNotifier, OnCommit, Result
from fedfleet.app.api.user_warnings import warn_of_unseeded, warn_user
from fedfleet.app.assemble import Setup, assemble, feasibility_warnings, open_executor, run_warnings, score_of
from fedfleet.app.pages.report_page import write_report
from fedfleet.app.runs import FinishedRun, perform, read_finished_run, stored_weights
from fedfleet.app.runs.custom_task import CustomTask, UserInputs, load_custom_task, with_user_metrics
from fedfleet.app.runs.execution import Listeners
from fedfleet.app.runs.extra_measures import noise_source, with_class_measures, with_privacy
from fedfleet.app.runs.model_trust import trust_model
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.spec import Spec
from fedfleet.app.terminal.own_options import (
    DroppedColumns,
    InputColumns,
    KindOfTask,
    LabelColumn,
    MissingRule,
    OwnerColumn,
    TimeColumn,
)
from fedfleet.app.tracking.run_follower import follow_run
from fedfleet.app.tracking.sink import sinks_of
from fedfleet.core.errors import BadInput, FedFleetError
from fedfleet.core.events import Event, without_sums
from fedfleet.core.sources import World
from fedfleet.measure.summary import summary
from fedfleet.simulation.simulator import simulate
from fedfleet.store import journal as journals

_NOTHING = UserInputs()


def run(
    spec: str | Path | Mapping[str, Any] | None = None,
    *overrides: str,
    model: Any = None,
    data: Any = None,
    label: LabelColumn = None,
    owner: OwnerColumn = None,
    input: InputColumns = None,
    drop: DroppedColumns = None,
    time: TimeColumn = None,
    kind: KindOfTask = None,
    missing: MissingRule = None,
    loss: Callable[[Any, Any], Any] | None = None,
    metrics: Mapping[str, Callable[[Any, Any], Any]] | None = None,
    on_commit: OnCommit | Sequence[OnCommit] = (),
    weights: str | Path | None = None,
    partial_weights: bool = False,
    out: str | Path | None = None,
    keep_data: bool = True,
    resume: bool = False,
    trust_code: str | None = None,
    track: str | Sequence[str] = (),
) -> Result:
    """Train by a spec (a path or a nested dictionary), with `key=value` overrides; or, without one, on your own data.

    Args:
        model: your own PyTorch module, or a function or class that makes one without arguments; or "model.py:Net", or the name of
            a small model that ships (see `fedfleet list tasks`: table), for data in files.
        data: (inputs, integer labels) or (inputs, labels, owners) as arrays, a .npz or .safetensors file with arrays x, y and
            perhaps owner, or whatever `fedfleet.data` reads: a folder of per-client files, LEAF's JSON, a dataset. A path without
            a model of yours, or with "model.py:Net", becomes the spec's own task (`table`).
        label, owner: the columns of data with the labels (several for several outputs) and with who made each sample.
        input, drop: the columns of the inputs, or those that are not read (both: a name or a list); default: the inputs are all
            others.
        time: the column that says when each sample was made; it is no input.
        kind: classification, regression, multilabel, next_token or sequence_labels; default: by the labels.
        missing: what becomes of samples with missing values: error (the default), drop, or mean.
        loss: a function (outputs, labels) that gives one value per sample, or their mean, as a tensor; default: cross-entropy.
        metrics: functions (outputs, labels) of arrays by name, asked about the last model on the central test set; what they
            say is in `result.metrics["own"]`.
        on_commit: called with each new model (see `Commit`); more than one may be given.
        weights: the first weights of your model: a .safetensors file, a folder of Hugging Face, or the folder of a run. A resumed
            run needs them no more.
        partial_weights: take over the arrays of `weights` that fit, for example all but the head; the rest begins as without them.
        out: the folder to write, with journal, model, measures, report, and what was given in `own/`. Without it nothing is
            written.
        keep_data: copy the inputs into the folder; otherwise it refers to the file that they came from, by path and hash, or
            they must be given again. Labels are always kept: decisions are checked against them.
        resume: go on from the last checkpoint in `out`; where there is none yet, begin, so that a script can be called again. What
            is not given again is taken from the folder.
        trust_code: the hash of the code in a folder, which is never run without it.
        track: write rounds, evaluations and your metrics to a tracking tool too: "tensorboard:DIR", "mlflow:URI", "wandb:DIR" or
            "jsonl:FILE"; or a list of them.

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
    folder = None if out is None else as_path("out", out)
    if resume and folder is None:
        raise BadInput("resume needs the folder of the run to continue; give it with out=..")
    notifier, sinks = CommitNotifier(_callbacks(on_commit)), sinks_of(track)
    inputs = user_inputs(model, data, loss, metrics, weights, partial_weights=partial_weights)
    if folder is not None and not resume:
        warn_of_unseeded(inputs)
    columns = Columns(label, owner, input, drop, time, kind, missing)
    resumed = folder is not None and resume and has_custom_task(folder)
    taken = take_inputs(spec, overrides, inputs, columns, as_objects=resumed)
    resolved, custom_task = resolve_inputs(*taken, resume_folder=folder if resume else None, trust=trust_code, copy_data=keep_data)
    trust_model(resolved, None if custom_task else trust_code, folder)
    on_events = notifier.on_events if notifier.callbacks else None  # whoever listens costs a call for every event
    name = folder.resolve().name if folder is not None else f"{resolved.name}-{resolved.digest[:10]}"
    with follow_run(sinks, resolved, name, warn_user) as follower:
        listeners = Listeners(follower.combined_with(None), on_events)
        if folder is None:
            result = _run_in_memory(resolved, custom_task, listeners)
            notifier.notify()
        else:
            finished_run = perform(
                resolved, folder, resume=resume, custom_task=custom_task, trust=trust_code, watch=listeners.watch, hear=on_events
            )
            notifier.notify()
            write_report(finished_run)
            result = _result_of(finished_run, taken[2])
        follower.end(result.metrics)
    for warning in result.metrics["warnings"]:
        if folder is not None or custom_task is None or warning not in custom_task.task.warnings:  # said before training
            warn_user(warning)
    return result


def load(out: str | Path | Result) -> Result:
    """A finished run, from its folder."""
    return _result_of(read_finished_run(result_folder(out, "load")))


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
    inputs = user_inputs(model, data, loss)
    inputs = replace(inputs, data=arrays(read_user_data(inputs.data)))
    return replay_run(result_folder(out, "replay"), quick=quick, trust=trust_code, inputs=inputs)


def _callbacks(value: Any) -> list[OnCommit]:
    callbacks: list[Any] = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    for callback in callbacks:
        if not callable(callback):
            raise BadInput(f"on_commit: {callback!r} is not a function; give one that takes a Commit")
    return callbacks


def _run_in_memory(spec: Spec, custom_task: CustomTask | None, listeners: Listeners) -> Result:
    """A run of which nothing is written."""
    setup = assemble(spec, custom_task.task if custom_task else None)
    noise_source(setup.plan.algorithm)  # whether its privacy can be accounted for
    for warning in feasibility_warnings(setup):
        warn_user(warning)
    journal, events = journals.memory_journal(), list[Event]()

    def watch(more: Sequence[Event]) -> None:
        events.extend(without_sums(more))
        if listeners.watch is not None:
            listeners.watch(more)

    with open_executor(setup) as execute:
        simulation = simulate(setup.plan, setup.world, execute, journal=journal, watch=watch, hear=listeners.hear)
    params = simulation.state.server.params
    measures = summary(events, score=score_of(setup.task), caveats=run_warnings(setup, events))
    measures = with_class_measures(with_privacy(measures, setup.plan, {}, events), setup.task, params)
    metrics = {
        **with_user_metrics(custom_task and replace(custom_task, task=setup.task), params, measures),
        "first_weights": setup.task.first_weights,
        "digest": journal.digest,
        "spec_digest": spec.digest,
    }
    return Result(metrics, setup.task.whole(params), events, None, lambda: setup.world, lambda: setup.task)


def _result_of(finished_run: FinishedRun, inputs: UserInputs = _NOTHING) -> Result:
    """The result in a folder; `inputs` are what the person gave, where this process has it."""
    return Result(
        finished_run.metrics,
        stored_weights(finished_run.out),
        finished_run.events,
        finished_run.out,
        lambda: _world_of(finished_run, inputs),
        lambda: _setup_of(finished_run, inputs).task,
    )


def _world_of(finished_run: FinishedRun, inputs: UserInputs) -> World | None:
    """The world of a run's folder, built again; None if something that it needs is not here."""
    try:
        return _setup_of(finished_run, inputs).world
    except FedFleetError:
        return None


def _setup_of(finished_run: FinishedRun, inputs: UserInputs) -> Setup:
    """The setup of a run's folder as its algorithm trained it, built again."""
    given = replace(inputs, data=arrays(inputs.data))
    custom_task = load_custom_task(finished_run.out, finished_run.spec, inputs=given, need_metrics=False)
    return assemble(finished_run.spec, custom_task.task if custom_task else None)
