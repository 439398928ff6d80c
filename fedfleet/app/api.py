"""The Python call: run a spec, or your own PyTorch model on your own arrays."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedfleet.app.assemble import Setup, assemble, caveats, chance_of, doubts, executing
from fedfleet.app.comparing import Comparison
from fedfleet.app.comparing import compare as compared
from fedfleet.app.datasets.own import opened
from fedfleet.app.pages.report import write_report
from fedfleet.app.pages.studied import with_pages
from fedfleet.app.pages.working import work
from fedfleet.app.result import OnCommit, Result, Telling
from fedfleet.app.runs import Finished, finished, perform, stored_weights
from fedfleet.app.runs.classes import with_classes
from fedfleet.app.runs.own import Given, Own, brought, content, is_own, judged, maker, reopened
from fedfleet.app.runs.own_folder import arrays_file, laid_out, read_arrays, write_arrays
from fedfleet.app.runs.privacy import source_here, with_privacy
from fedfleet.app.runs.replay import replay_run
from fedfleet.app.spec import Spec, load_spec, read_table, resolve, with_words
from fedfleet.app.studies.answering import Studied, asked_for, place_of
from fedfleet.app.studies.answering import study as carry_out
from fedfleet.app.studies.running import Means
from fedfleet.core.errors import BadInput, FedFleetError
from fedfleet.core.events import Event, without_sums
from fedfleet.core.parts import Task
from fedfleet.core.sources import World
from fedfleet.measure.summary import summary
from fedfleet.runtime import journal as journals
from fedfleet.runtime.seals import SEAL
from fedfleet.runtime.simulate import Hear, simulate
from fedfleet.tasks.checking import check_fit, checked_build, checked_data
from fedfleet.tasks.task import make_task

Recipe = Callable[[int], Task]  # a task for a seed


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
        resume: go on from the last checkpoint in `out`. What is not given again is taken from the folder.
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
    folder = None if out is None else Path(out)
    if resume and folder is None:
        raise BadInput("resume: say which run to go on with, by its folder: out=..")
    given = Given(model, opened(data), loss, dict(metrics or {}))
    resolved, own = _asked(spec, overrides, given, folder if resume else None, trust_code, copied=keep_data)
    telling = Telling(list(on_commit) if isinstance(on_commit, Sequence) else [on_commit])
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


def load(out: str | Path) -> Result:
    """A finished run, from its folder."""
    return _read(finished(Path(out)))


def replay(
    out: str | Path,
    *,
    model: Any = None,
    data: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    quick: bool = False,
    trust_code: str | None = None,
) -> dict[str, Any]:
    """Audit a run from its folder, as `fedfleet replay` does; give what the folder of an own model cannot make again."""
    return replay_run(Path(out), quick=quick, trust=trust_code, given=Given(model, _arrays(opened(data)), loss))


def compare(
    runs: Sequence[Result | str | Path], *, target: float | None = None, page: str | Path | None = None
) -> Comparison:
    """Runs side by side, by their folders or results; `print(found.verdict.sentence)` says which is better and how sure that is.

    Args:
        runs: folders of runs, finished or not, or of studies; or what `run(.., out=..)` gave.
        target: the accuracy to which times are told, as a share; default: from the runs.
        page: also write the comparison as one HTML file.
    """
    if isinstance(runs, str | Path | Result):
        raise BadInput("compare takes a list of runs: compare([first, second])")
    found = compared([_folder(one) for one in runs], target=target)
    if page is not None:
        from fedfleet.app.pages.comparison import write_comparison

        write_comparison(found, Path(page))
    return found


def _folder(one: Result | str | Path) -> Path:
    if not isinstance(one, Result):
        return Path(one)
    if one.out is None:
        raise BadInput("one of the results was kept in no folder; run it with out=.., then compare")
    return one.out


def study(
    file: str | Path | Mapping[str, Any],
    *,
    scale: str | None = None,
    model: Any = None,
    data: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    metrics: Mapping[str, Callable[[Any, Any], Any]] | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
) -> Studied:
    """Carry out a study (a file, or the same as a nested dictionary) and write its tables and its page; `print` shows the answer.

    What is finished in the folder is not run again: say the same again to go on after an interruption.

    Args:
        scale: apply the study's `[scale.NAME]`.
        model, data, loss, metrics: your own, as for `run`; such runs are done in this process, one after the other, and the data
            lie once in the folder.
        out: the folder; default: runs/NAME.
        workers: in how many processes to run; default: one for each processor.
    """
    named = (
        {"name": Path(out).name, **file} if isinstance(file, Mapping) and out is not None and Path(out).name else file
    )
    asked = asked_for(named, scale)
    folder = place_of(asked) if out is None else Path(out)
    if model is None and data is None:
        if loss is not None or metrics:
            raise BadInput("loss and metrics go with a model and data of your own; give these too, or leave them out")
        return with_pages(carry_out(asked, folder, means=Means(workers or 0, work=work), quiet=False))
    if model is None or data is None:
        raise BadInput("give both model and data to study your own model, or neither to study the task of the base")
    data = opened(data)
    given = Given(model, _arrays(data), loss, dict(metrics or {}))
    recipe = own_task(model, given.data, scores=loss is None)  # before anything is made of data that cannot be used
    filed = isinstance(data, str | Path)
    file = Path(data) if filed else arrays_file(folder, laid_out(given.data))

    def begin(table: dict[str, Any], name: str) -> tuple[Spec, Own]:
        _refuse_named_task(table)
        return _begun(table, name, given, copied=False, recipe=recipe, file=str(file.resolve()))

    def prepare() -> None:
        if not filed:
            write_arrays(folder, given.data)

    return with_pages(carry_out(asked, folder, means=Means(1), quiet=False, resolving=begin, prepare=prepare))


def own_task(model: Any, data: Sequence[Any], *, scores: bool = True) -> Recipe:
    """A task made of a PyTorch model and arrays; `scores`: the model gives a score for each class, as cross-entropy needs."""
    dataset = checked_data(data)
    check_fit(checked_build(model), dataset, scores=scores)
    return make_task("own", lambda: dataset, maker(model))


def _asked(
    spec: str | Path | Mapping[str, Any],
    overrides: Sequence[str],
    given: Given,
    resumed: Path | None,
    trust: str | None,
    *,
    copied: bool,
) -> tuple[Spec, Own | None]:
    """The resolved spec, and the own task where there is one: as it was given, or with what the folder has of it."""
    name = "run" if isinstance(spec, Mapping) else Path(spec).stem
    table = with_words(dict(spec) if isinstance(spec, Mapping) else read_table(spec), overrides)
    there = _own_in(resumed)
    if given.model is None and given.data is None and there is None:
        if given.loss is not None or given.metrics:
            raise BadInput("loss and metrics go with a model and data of your own; give these too, or leave them out")
        return resolve(table, name), None
    _refuse_named_task(table)
    if given.model is not None and given.data is not None:
        resolved, own = _begun(table, name, given, copied=copied)
        if there is not None and there.task["content"] != resolved.task["content"]:
            raise BadInput(
                f"model or data are not those of the run in {resumed}: its data or its first weights are others; give the same "
                "again, or leave out what the folder keeps"
            )
        return resolved, own
    if there is None or resumed is None:
        raise BadInput(
            "give both model and data to train your own model, or neither to train the task that the spec names"
        )
    resolved = resolve({**table, "task": there.task}, name)
    if (resumed / SEAL).is_file():
        return resolved, None  # it is finished, and needs nothing any more
    return resolved, reopened(resumed, resolved, trust, replace(given, data=_arrays(given.data)))


def _begun(
    table: dict[str, Any], name: str, given: Given, *, copied: bool, recipe: Recipe | None = None, file: str = ""
) -> tuple[Spec, Own]:
    """Spec and task of model and data that were both given; `recipe`: the task that they make, where it is known already."""
    file = file or (str(Path(given.data).resolve()) if isinstance(given.data, str | Path) else "")
    recipe = recipe or own_task(given.model, _arrays(given.data), scores=given.loss is None)
    resolved = resolve({k: v for k, v in table.items() if k != "task"}, name, own_task="?")
    task = recipe(resolved.data_seed)
    own = brought(task, given, file=file, copied=copied)
    loss = {} if given.loss is None else {"loss": getattr(given.loss, "__name__", type(given.loss).__name__)}
    return replace(resolved, task={"use": "own", "content": content(task, resolved.training_seed), **loss}), own


def _refuse_named_task(table: Mapping[str, Any]) -> None:
    named = table.get("task")
    if named is not None and not (isinstance(named, Mapping) and named.get("use") == "own"):
        raise BadInput(
            "the spec names a task, and model and data are of your own; leave [task] out, or the model and the data"
        )


def _own_in(folder: Path | None) -> Spec | None:
    """The spec of the run in this folder, if it is one of an own model."""
    if folder is None or not (folder / "spec.toml").is_file():
        return None
    found = load_spec(folder / "spec.toml")
    return found if is_own(found) else None


def _arrays(data: Any) -> Any:
    return read_arrays(data) if isinstance(data, str | Path) else data


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
