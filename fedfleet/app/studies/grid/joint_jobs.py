"""Runs that advance together in one process: which of a study's runs can, how they are performed, and in which form of stacks."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from fedfleet.app.assemble import Setup, open_executor
from fedfleet.app.runs import FinishedRun, perform
from fedfleet.app.runs.execution import Kernel
from fedfleet.app.spec import Spec
from fedfleet.app.spec.table_checks import build_part
from fedfleet.core.errors import FedFleetError
from fedfleet.core.events import Event
from fedfleet.core.json_text import parse_json
from fedfleet.core.parts import Executor

if TYPE_CHECKING:
    from fedfleet.executors.joint_runs import JoinedRun, JointTraining
    from fedfleet.executors.stacked.form_choice import Form
from typing import TYPE_CHECKING, Any

from fedfleet.core.errors import BadInput
from fedfleet.store.files import write_atomically

if TYPE_CHECKING:
    from fedfleet.executors.stacked.form_choice import Form


RunListener = Callable[[int, Sequence[Event]], None]

# Each run keeps a model, a world and a journal in memory; more than these add little to a stack and stand in each other's way.
MOST_TOGETHER = 12


def joint_groups(specs: Sequence[Spec], *, workers: int = 1) -> list[list[int]]:
    """Which of these runs advance together, as places in the input; a run that cannot be joined is a group of its own.

    Runs are joined that ask for `run.execute = "stacked"` on the processor and have one task: their seeds, fleets, methods and
    pacing may differ. Groups are cut so that each of these workers has something to do.
    """
    by_shape: dict[str, list[int]] = {}
    result: list[list[int]] = []
    for i, spec in enumerate(specs):
        if _may_join(spec):
            by_shape.setdefault(shape_of(spec), []).append(i)
        else:
            result.append([i])
    for members in by_shape.values():
        if len(members) == 1 or not _joinable(specs[members[0]]):
            result += [[i] for i in members]
            continue
        parts = max(-(-len(members) // MOST_TOGETHER), min(workers, len(members) // 2), 1)
        # Stacks of different algorithms, or learning rates, are trained one after the other: runs that share theirs stay together.
        by_algorithm: dict[str, list[int]] = {}
        for i in members:
            by_algorithm.setdefault(json.dumps(specs[i].algorithm, sort_keys=True, default=str), []).append(i)
        if len(by_algorithm) == 1:
            result += [members[k::parts] for k in range(parts)]
            continue
        ordered = [i for alike in by_algorithm.values() for i in alike]
        cuts = [k * len(ordered) // parts for k in range(parts + 1)]
        result += [sorted(ordered[a:b]) for a, b in pairwise(cuts)]
    return sorted(result, key=lambda group: group[0])


def _may_join(spec: Spec) -> bool:
    """Could this run be joined, as far as its spec says? What its parts say is looked at when they are made."""
    run = spec.run
    return run["execute"] == "stacked" and run["device"] == "cpu" and spec.edge is None and spec.task["use"] != "own"


def shape_of(spec: Spec) -> str:
    """What runs have in common that may advance together."""
    return json.dumps([spec.task, spec.run["threads"], spec.run["tf32"]], sort_keys=True, default=str)


def _joinable(spec: Spec) -> bool:
    """Do stacks of this task keep their bits whatever their size? A task that cannot be made says so in its own run."""
    from fedfleet.executors.stacked.numerics import is_size_independent

    try:
        return is_size_independent("merged", build_part("tasks", spec.task)(spec.data_seed))
    except FedFleetError:
        return False


def perform_together(
    specs: Sequence[Spec], outs: Sequence[Path], *, resume: bool = False, watch: RunListener | None = None, form: Form | None = None
) -> list[FinishedRun | Exception]:
    """Run specs together, each in its own folder as `perform` would; what went wrong with one is in its place.

    With `resume` a folder that was begun goes on. `watch` receives a run's place in the input and its events, in that run's thread.
    An interrupt ends all of them, and all can be resumed. New runs take this `form` of stacks, or the one that is fastest here.
    """
    from fedfleet.executors.joint_runs import JointRunStop, JointTraining

    form, meeting = form or form_for(specs[0]), JointTraining()
    seats = [meeting.add_run() for _ in specs]
    result: list[FinishedRun | Exception] = [RuntimeError("never begun") for _ in specs]

    def on_events(i: int, events: Sequence[Event]) -> None:
        meeting.check_open()
        if watch is not None:
            watch(i, events)

    def perform_one(i: int) -> None:
        kernel = Kernel(partial(_executor, meeting, seats[i]), form)
        resumes = resume and outs[i].exists()
        try:
            result[i] = perform(specs[i], outs[i], resume=resumes, watch=partial(on_events, i), kernel=kernel)
        except Exception as error:
            result[i] = error
        except JointRunStop:
            pass  # what ended it is raised elsewhere
        finally:
            meeting.leave(seats[i])

    threads = [threading.Thread(target=perform_one, args=(i,), name=f"run {i}", daemon=True) for i in range(len(specs))]
    try:
        for thread in threads:
            thread.start()
        meeting.serve()
        for thread in threads:  # those who train alone may take longer
            thread.join()
    except BaseException:
        meeting.close()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        raise
    return result


@contextmanager
def _executor(meeting: JointTraining, seat: JoinedRun, setup: Setup, form: Form | None) -> Iterator[Executor]:
    """The executor of a run that meets others; a run that computes otherwise has its own, and leaves."""
    if form is None or not _may_join(setup.spec):
        meeting.leave(seat)
        with open_executor(setup, form) as execute:
            yield execute
        return
    from fedfleet.executors.joint_runs import joint_executor

    yield joint_executor(setup.task, meeting, seat, threads=form.threads, form=form.name)


def form_for(spec: Spec) -> Form | None:
    """The fastest form of stacks for these runs, found once for all; None where there is none to choose."""
    from fedfleet.app.assemble.executor_choice import fastest_form

    return fastest_form(spec, build_part("tasks", spec.task)(spec.seed)) if _may_join(spec) else None


FORMS_FILE = "forms.json"  # in the folder of a study
Choose = Callable[[Spec], "Form | None"]


def load_forms(folder: Path, specs: Sequence[Spec], choose: Choose = form_for) -> list[list[Any] | None]:
    """For each run the name of its form and the threads; None where it has none to choose.

    Which form is fastest is measured, and a busy machine may measure otherwise: what was chosen first stays.
    """
    path = folder / FORMS_FILE
    try:
        known: dict[str, list[Any]] = dict(parse_json(path.read_text(encoding="utf-8")) if path.is_file() else {})
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(f"{path} cannot be read ({error}); restore it, or choose another folder with --out") from None
    result = dict(known)
    for spec in specs:
        if spec.run["execute"] == "stacked" and shape_of(spec) not in result:
            form = choose(spec)
            if form is not None:
                result[shape_of(spec)] = [form.name, form.threads]
    if result != known:
        write_atomically(path, (json.dumps(result, indent=1) + "\n").encode())
    return [result.get(shape_of(spec)) if spec.run["execute"] == "stacked" else None for spec in specs]
