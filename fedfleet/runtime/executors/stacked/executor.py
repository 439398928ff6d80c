"""The executor itself: jobs become stacks, stacks become reports, or one exact sum where they were made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from queue import SimpleQueue

import numpy as np
import torch

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.parts import ExactMean, Executor, Folded, Job, LocalPass, Task, Trial
from fedfleet.core.records import Rejected, Report, Score
from fedfleet.core.trees import Tree, difference
from fedfleet.runtime.executors.inline import inline
from fedfleet.runtime.executors.stacked.folding import DeviceSum
from fedfleet.runtime.executors.stacked.graph import Graphs
from fedfleet.runtime.executors.stacked.loop import alone_on_its_core, loop_reports
from fedfleet.runtime.executors.stacked.schedule import Stacked, chunks, groups, plan_stack
from fedfleet.runtime.executors.stacked.score import score_trials
from fedfleet.runtime.executors.stacked.train import Trained, train_stack
from fedfleet.runtime.executors.stacked.twin import CannotStack, Tensors, Twin, make_twin


@dataclass(slots=True)
class Place:
    """A task on a device: its data, kept there once, its twin, and what was uploaded last."""

    task: Task
    device: torch.device
    x: torch.Tensor
    y: torch.Tensor
    judge: torch.nn.Module  # the model as it is, for evaluation
    twins: list[Twin]
    form: str
    threads: int
    most: int  # clients per stack; halved when memory runs out
    graphs: Graphs | None = None
    uploaded: tuple[int, Tree, Tensors] | None = None
    notes: list[str] = field(default_factory=list)
    streamed: bool = False  # do the stacks bring their rows along?
    computed: int = 0  # samples that went through the stacks, padding included
    real: int = 0


def stacked(
    task: Task,
    *,
    device: str = "cpu",
    threads: int = 1,
    form: str = "merged",
    tf32: bool = False,
    graphs: bool = True,
    room: float | None = None,
) -> Executor:
    """An executor that trains the clients of a cohort together on one device.

    Forms: `merged` (a twin with all clients' batches in one), `loop` (one client after the other, lean, on CPU threads).
    A model that cannot be merged is trained by the loop. The data stay on the device if they fit into `room` bytes
    (default: half of what is free there); else every stack brings its own rows along.
    """
    where = open_place(task, device=device, threads=threads, form=form, tf32=tf32, graphs=graphs, room=room)

    def train(jobs: Sequence[Job]) -> Iterator[Report]:
        ready: dict[int, Report] = {}
        for stack, local, trained in _trained(where, jobs):
            ready |= zip(stack.order, reports_of(stack, local, trained), strict=True)
        ready |= _opaque(where, jobs)
        yield from (ready[i] for i in range(len(jobs)))

    def fold(jobs: Sequence[Job], mean: ExactMean) -> Folded:
        return fold_jobs(where, jobs, mean)

    def evaluate(trials: Sequence[Trial]) -> Iterable[Score]:
        return score_trials(where.judge, where.twins, where.x, where.y, trials, where.device)

    def remarks() -> tuple[str, ...]:
        waste = 1.0 - where.real / where.computed if where.computed else 0.0
        return (f"{waste:.1%} of the samples that were computed in stacks were padding",) if where.computed else ()

    # On a CPU reports cost less than the extra passes over a whole stack; elsewhere they would have to cross a bus.
    name = f"stacked-{where.form}"
    own_fold = fold if where.form == "merged" and where.device.type != "cpu" else None
    return Executor(name, train, evaluate, own_fold, notes=tuple(where.notes), remarks=remarks, together=True)


def open_place(
    task: Task, *, device: str, threads: int, form: str, tf32: bool, graphs: bool, room: float | None = None
) -> Place:
    """Bring the data to the device and build the twin, or say why there is none."""
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise BadInput(f"run.device = {device!r}: there is no CUDA device here; use cpu")
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.set_num_threads(1)  # threads of ours run kernels side by side; kernels' own threads would only wait
    target = torch.device(device)
    notes: list[str] = []
    twins: list[Twin] = []
    if form == "merged":
        try:
            sample = torch.from_numpy(task.dataset.x[:2])
            twins = [make_twin(task.build(), sample) for _ in range(threads if target.type == "cpu" else 1)]
        except CannotStack as wrong:
            form = "loop"
            notes.append(f"{task.name} cannot be stacked ({wrong}); its clients are trained one after the other")
    x, y, streamed = _brought(task, target, room)
    if streamed:
        graphs = False  # a recording knows one place of the data only
        notes.append(f"{task.name}: the data do not fit on {device} and are brought there stack by stack")
    wanted = Graphs() if graphs and target.type == "cuda" else None
    judge = task.build().to(target).eval()
    return Place(
        task,
        target,
        x,
        y,
        judge,
        twins,
        form,
        threads,
        _most_clients(task, target),
        wanted,
        notes=notes,
        streamed=streamed,
    )


def _brought(task: Task, target: torch.device, room: float | None) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """The data on the device, or in page-locked memory here if they would take too much of it; then they are streamed."""
    x, y = torch.from_numpy(task.dataset.x), torch.from_numpy(task.dataset.y)
    if room is None:
        room = torch.cuda.mem_get_info(target)[0] / 2 if target.type == "cuda" else float("inf")
    if x.nbytes + y.nbytes <= room:
        return x.to(target), y.to(target), False
    return (x.pin_memory(), y.pin_memory(), True) if target.type == "cuda" else (x, y, True)


def _at_hand(where: Place, stack: Stacked) -> tuple[Stacked, torch.Tensor, torch.Tensor]:
    """The stack with the data that it needs on the device: all of them, or just its own rows, renumbered."""
    if not where.streamed:
        return stack, where.x, where.y
    own, places = np.unique(stack.rows, return_inverse=True)
    rows = torch.from_numpy(own)
    x, y = (v[rows].to(where.device, non_blocking=True) for v in (where.x, where.y))
    return replace(stack, rows=places.reshape(stack.rows.shape)), x, y


def _most_clients(task: Task, device: torch.device) -> int:
    """How many clients fit: parameters, their gradients and room for activations, in half of the free memory."""
    size = sum(v.nbytes for v in task.init(0).values())
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return max(1, int(free / (12 * size + 64e6)))
    # On a CPU stacks should stay near the cache, and be large enough for products that all their clients share.
    return int(min(50, max(25, 8e6 // max(size, 1))))


def _opaque(where: Place, jobs: Sequence[Job]) -> dict[int, Report]:
    """Jobs that cannot be stacked at all, trained literally; the loop form takes everything else."""
    merged = where.form == "merged"
    mine = [i for i, job in enumerate(jobs) if not (merged and isinstance(job.local, LocalPass))]
    if not mine:
        return {}
    passes = [i for i in mine if isinstance(jobs[i].local, LocalPass)]
    opaque = [i for i in mine if not isinstance(jobs[i].local, LocalPass)]
    done = dict(zip(passes, _looped(where, [jobs[i] for i in passes]), strict=True))
    return done | dict(
        zip(opaque, inline(where.task, threads=where.threads).train([jobs[i] for i in opaque]), strict=True)
    )


def _looped(where: Place, jobs: Sequence[Job]) -> list[Report]:
    """One client after the other, on threads."""
    return loop_reports(where.task, jobs, where.x, where.y, where.threads)


def _trained(where: Place, jobs: Sequence[Job]) -> Iterator[tuple[Stacked, LocalPass, Trained]]:
    """Stacks of the jobs that can be stacked, trained, in an order that depends on the jobs alone."""
    if not where.twins:
        return
    stackable = [i for i, job in enumerate(jobs) if isinstance(job.local, LocalPass)]
    for local, inside in groups([jobs[i] for i in stackable]):
        places = [stackable[j] for j in inside]
        stacks = _side_by_side if where.device.type == "cpu" else _one_by_one
        for stack, own, trained in stacks(where, jobs, places, local):
            where.real += int(stack.sizes.sum())
            where.computed += sum(stack.active) * stack.rows.shape[2]
            yield stack, own, trained


def _side_by_side(
    where: Place, jobs: Sequence[Job], places: list[int], local: LocalPass
) -> Iterator[tuple[Stacked, LocalPass, Trained]]:
    """On a CPU: one stack per thread at a time, each thread with a twin of its own and one kernel thread."""
    most = max(1, min(where.most, -(-len(places) // where.threads)))
    free: SimpleQueue[Twin] = SimpleQueue()
    for twin in where.twins:
        free.put(twin)

    def one(part: list[int]) -> tuple[Stacked, LocalPass, Trained]:
        twin = free.get()
        try:
            stack = plan_stack(jobs, part, local)
            _refuse_empty(stack)
            return stack, local, train_stack(twin, *_pass(where, stack, local))
        finally:
            free.put(twin)

    parts = list(chunks(jobs, places, most))
    if where.threads == 1 or len(parts) == 1:
        yield from map(one, parts)
        return
    with ThreadPoolExecutor(where.threads, initializer=alone_on_its_core) as pool:
        yield from pool.map(one, parts)


def _one_by_one(
    where: Place, jobs: Sequence[Job], places: list[int], local: LocalPass
) -> Iterator[tuple[Stacked, LocalPass, Trained]]:
    """On an accelerator: one stack after the other, smaller ones when memory runs out."""
    waiting = list(chunks(jobs, places, where.most))
    while waiting:
        part = waiting.pop(0)
        stack = plan_stack(jobs, part, local)
        _refuse_empty(stack)
        try:
            yield stack, local, _train(where, stack, local)
        except torch.OutOfMemoryError:
            if len(part) == 1:
                raise RunFailed(
                    f"client {jobs[part[0]].client} alone does not fit into the memory of {where.device}"
                ) from None
            torch.cuda.empty_cache()
            where.most = max(1, len(part) // 2)
            waiting = [part[: where.most], part[where.most :], *waiting]


def _refuse_empty(stack: Stacked) -> None:
    for job in stack.jobs:
        if not len(job.rows):
            raise RunFailed(f"client {job.client}, task {job.task}: local training failed: its training shard is empty")


def _train(where: Place, stack: Stacked, local: LocalPass) -> Trained:
    ready = _pass(where, stack, local)
    if where.graphs is not None:
        captured = where.graphs.train(where.twins[0], *ready)
        if captured is not None:
            return captured
    return train_stack(where.twins[0], *ready)


def _pass(
    where: Place, stack: Stacked, local: LocalPass
) -> tuple[Stacked, LocalPass, Tensors, torch.Tensor, torch.Tensor]:
    at_hand, x, y = _at_hand(where, stack)
    return at_hand, local, _starts(where, stack, local), x, y


def _starts(where: Place, stack: Stacked, local: LocalPass) -> Tensors:
    """What each client begins with, [clients, ..]: what was offered, and what it kept at home."""
    offered = stack.jobs[0].offered
    if local.keep is None and all(job.offered is offered for job in stack.jobs):
        if where.uploaded is None or where.uploaded[1] is not offered:
            where.uploaded = (
                id(offered),
                offered,
                {n: torch.from_numpy(v).to(where.device, copy=True) for n, v in offered.items()},
            )
        return {n: v.unsqueeze(0).expand(len(stack.jobs), *v.shape) for n, v in where.uploaded[2].items()}
    keep = local.keep or (lambda name: False)
    mine = [{n: (job.memory or {}).get(n, v) if keep(n) else v for n, v in job.offered.items()} for job in stack.jobs]
    return {n: torch.from_numpy(np.stack([tree[n] for tree in mine])).to(where.device) for n in offered}


def reports_of(stack: Stacked, local: LocalPass, trained: Trained) -> Iterator[Report]:
    """The reports of a trained stack, in its order."""
    keep = local.keep or (lambda name: False)
    end = {n: v.detach().cpu().numpy() for n, v in trained.end.items()}
    for c, job in enumerate(stack.jobs):
        after = {n: end[n][c] for n in job.offered}
        update = difference({n: v for n, v in after.items() if not keep(n)}, job.offered)
        kept = {n: v.copy() for n, v in after.items() if keep(n)} if local.keep else None
        yield Report(job.task, job.client, update, _weight(job, local), _stats(stack, c, trained), kept)


def _weight(job: Job, local: LocalPass) -> float:
    return float(len(job.rows)) if local.weigh == "samples" else 1.0


def _stats(stack: Stacked, c: int, trained: Trained) -> dict[str, float]:
    steps = float((stack.sizes[:, c] > 0).sum())
    return {"loss": float(trained.loss[c]), "samples": float(len(stack.jobs[c].rows)), "steps": steps}


def fold_jobs(where: Place, jobs: Sequence[Job], mean: ExactMean) -> Folded:
    """Train and add up on the device: the same integers as folding the reports one by one, and no report leaves it."""
    total = DeviceSum(jobs[0].offered, mean, where.device)
    rejected: list[Rejected] = []
    rows: list[tuple[int, dict[str, float]]] = []
    for stack, local, trained in _trained(where, jobs):
        weights = [_weight(job, local) for job in stack.jobs]
        for c, (job, why) in enumerate(zip(stack.jobs, total.add(trained, weights), strict=True)):
            if why:
                rejected.append(Rejected(job.task, job.client, f"client {job.client}: {why}"))
            else:
                rows.append((job.task, _stats(stack, c, trained)))
    for report in _opaque(where, jobs).values():
        raise RunFailed(f"task {report.task} has an opaque pass, which cannot be folded on the device")
    rows.sort(key=lambda row: row[0])
    names = rows[0][1] if rows else {}
    stats = {n: np.array([found[n] for _, found in rows]) for n in names}
    tasks = np.array([t for t, _ in rows], np.int64)
    return Folded(total.close(), tasks, stats, tuple(sorted(rejected, key=lambda r: r.task)))


def train_cohort(where: Place, jobs: Sequence[Job]) -> list[Tensors]:
    """Train jobs and leave each client's parameters where they are: what the benchmark times."""
    found: dict[int, Tensors] = {}
    if not where.twins:
        for i, report in enumerate(_looped(where, jobs)):
            found[i] = {n: torch.from_numpy(v + report.update[n]) for n, v in jobs[i].offered.items()}
    for stack, _, trained in _trained(where, jobs):
        for c, i in enumerate(stack.order):
            found[i] = {n: v[c] for n, v in trained.end.items()}
    return [found[i] for i in range(len(jobs))]
