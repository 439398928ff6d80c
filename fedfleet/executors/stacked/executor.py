"""The executor itself: jobs become stacks, stacks become reports; and models are evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch.func import functional_call

from fedfleet.core.aggregation import Fold
from fedfleet.core.decoders import StackDecoder
from fedfleet.core.parts import Executor, FoldResult, Job, Loss, Task, Trial
from fedfleet.core.records import Context, Report, Score, ServerState
from fedfleet.executors.client_half import reports
from fedfleet.executors.stacked.device_fold import fold_jobs, train_unstackable
from fedfleet.executors.stacked.early_start import EarlyStart, Stacks, begin, take_stacks
from fedfleet.executors.stacked.placement import Place, open_place
from fedfleet.executors.stacked.stacked_model import Twin
from fedfleet.tasks.measures import Measuring, needs_measures
from fedfleet.tasks.scores import measure_batch, sample_counts, sample_losses, spread_tensor


def stacked_executor(
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
    return executor_at(open_place(task, device=device, threads=threads, form=form, tf32=tf32, graphs=graphs, room=room))


def executor_at(place: Place) -> Executor:
    """The executor of a task that has its place already."""
    early: list[EarlyStart] = []  # none or one: a recording is played for one stack at a time

    def begin_early(jobs: Sequence[Job]) -> None:
        early[:] = [started for started in (begin(place, jobs),) if started is not None]

    def stacks_of(jobs: Sequence[Job]) -> Stacks:
        return take_stacks(place, early.pop() if early else None, jobs)

    def train(jobs: Sequence[Job]) -> Iterator[Report]:
        ready: dict[int, Report] = {}
        for places, group, trained in stacks_of(jobs):
            ready |= zip(places, reports(group, trained), strict=True)
        ready |= train_unstackable(place, jobs)
        yield from (ready[i] for i in range(len(jobs)))

    def fold(
        jobs: Sequence[Job], contexts: Sequence[Context], rule: Fold, server: ServerState, decode: StackDecoder | None = None, /
    ) -> FoldResult:
        return fold_jobs(place, jobs, contexts, rule, server, decode, stacks_of(jobs) if early else None)

    def evaluate(trials: Sequence[Trial]) -> Iterable[Score]:
        return score_trials(place.eval_model, place.twins, place.x, place.y, trials, place.device, place.task)

    def remarks() -> tuple[str, ...]:
        waste = 1.0 - place.real / place.computed if place.computed else 0.0
        padded = (f"{waste:.1%} of the samples that were computed in stacks were padding",) if place.computed else ()
        return padded + tuple(f"{n} tasks were trained one by one: {why}" for why, n in place.unstacked.items())

    # Reports of small models cost less than the extra passes over a whole stack; elsewhere they would have to cross a bus.
    name = f"stacked-{place.form}"
    adds_up = place.adds_up and (place.form == "merged" or place.device.type == "cpu")
    return Executor(
        name,
        train,
        evaluate,
        fold if adds_up else None,
        notes=tuple(place.notes),
        warnings=remarks,
        together=True,
        begin=begin_early if adds_up and place.device.type != "cpu" else None,
    )


# ---- evaluation ---------------------------------------------------------------------------------------------------
# In large batches: one model on many shards is one pass with sums per shard, many models are a stack.

EVAL_BATCH = 4096


def score_trials(
    module: torch.nn.Module,
    twins: Sequence[Twin],
    x: torch.Tensor,
    y: torch.Tensor,
    trials: Sequence[Trial],
    device: torch.device,
    task: Task,
) -> Iterator[Score]:
    """Scores in input order: neighbours with the same parameters in one pass, models of their own in stacks.

    A loss that gives one value for many samples is asked about each shard alone, and so is what is measured in more ways.
    """
    runs: list[list[Trial]] = []
    joint_loss = task.loss is not None and task.loss.joint
    apart = [joint_loss or needs_measures(task, trial) for trial in trials]
    for i, trial in enumerate(trials):
        if runs and trial.params is runs[-1][0].params and not (apart[i] or apart[i - 1]):
            runs[-1].append(trial)
        else:
            runs.append([trial])
    if task.loss is None and twins and len(runs) > 1 and len(runs) == len(trials) and not any(apart):
        yield from _score_models(twins[0], x, y, trials, device, task)
        return
    for run in runs:
        params = {n: torch.from_numpy(np.array(v)).to(device) for n, v in run[0].params.items()}
        measuring = Measuring(task) if needs_measures(task, run[0]) else None
        scores = _score_shards(module, params, x, y, [t.rows for t in run], device, task, measuring)
        yield from scores if measuring is None else map(measuring.finish, scores)


def _score_shards(
    module,
    params,
    x: torch.Tensor,
    y: torch.Tensor,
    shards: list[np.ndarray],
    device: torch.device,
    task: Task,
    measuring: Measuring | None,
) -> Iterator[Score]:
    rows = torch.from_numpy(np.concatenate(shards) if shards else np.zeros(0, np.int64)).to(x.device)
    owner = np.repeat(np.arange(len(shards)), [len(s) for s in shards])
    spread = spread_tensor(task, device)
    right, possible, losses = list[torch.Tensor](), list[torch.Tensor](), list[torch.Tensor]()
    with torch.no_grad():
        for part in rows.split(EVAL_BATCH if device.type == "cpu" else 4 * EVAL_BATCH):
            truth = y[part].to(device)
            outputs = functional_call(module, params, (x[part].to(device),))
            hits, most = sample_counts(outputs, truth, spread)
            right.append(hits)
            possible.append(most)
            losses.append(_sample_losses(outputs, truth, task.loss))
            if measuring is not None:
                measure_batch(measuring, outputs, truth)
        # Fetched once at the end: each trip across the bus would wait for the device.
        correct, total = (_shard_sums(counts, owner, len(shards)) for counts in (right, possible))
        loss = np.bincount(owner, torch.cat(losses).cpu().numpy().astype(np.float64) if losses else None, len(shards))
    for i, shard in enumerate(shards):
        yield Score(int(correct[i]), int(total[i]), float(loss[i] / max(len(shard), 1)))


def _shard_sums(counts: list[torch.Tensor], owner: np.ndarray, shards: int) -> np.ndarray:
    """The exact sums of integers by shard."""
    sums = np.zeros(shards, np.int64)
    if counts:
        np.add.at(sums, owner, torch.cat(counts).cpu().numpy())
    return sums


def _sample_losses(outputs: torch.Tensor, truth: torch.Tensor, custom_loss: Loss | None) -> torch.Tensor:
    """The loss of each sample; of a joint one, its share in the value for all of them."""
    if custom_loss is None:
        return sample_losses(outputs, truth)
    losses = custom_loss.compute(outputs, truth)
    return losses.reshape(()).expand(len(truth)) if custom_loss.joint else losses.reshape(len(truth), -1).mean(1)


def _score_models(
    twin: Twin, x: torch.Tensor, y: torch.Tensor, trials: Sequence[Trial], device: torch.device, task: Task
) -> Iterator[Score]:
    """Each client's own model on its own shard: like lengths together, as many as make a large batch."""
    scores: dict[int, Score] = {}
    order = sorted(range(len(trials)), key=lambda i: len(trials[i].rows))
    while order:
        width = max(1, len(trials[order[-1]].rows))
        part, order = order[-max(1, EVAL_BATCH // width) :], order[: -max(1, EVAL_BATCH // width)]
        scores |= zip(part, _score_stack(twin, x, y, [trials[i] for i in part], width, device, task), strict=True)
    yield from (scores[i] for i in range(len(trials)))


def _score_stack(
    twin: Twin, x: torch.Tensor, y: torch.Tensor, trials: list[Trial], width: int, device: torch.device, task: Task
) -> Iterator[Score]:
    sizes = np.array([len(t.rows) for t in trials])
    rows = np.zeros((len(trials), width), np.int64)
    for row, trial in zip(rows, trials, strict=True):
        row[: len(trial.rows)] = trial.rows
    flat = torch.from_numpy(rows.reshape(-1)).to(x.device)
    names = [n for n in trials[0].params if n in twin.places]
    params = {n: torch.from_numpy(np.stack([t.params[n] for t in trials])).to(device) for n in names}
    twin.stack.move = twin.stack.trigger = twin.stack.weights = None
    twin.load(params, len(trials))
    twin.module.eval()
    with torch.no_grad():
        outputs, truth = twin.module(x[flat].to(device)), y[flat].to(device)
        counts = sample_counts(outputs, truth, spread_tensor(task, device))
        hits, most = (v.reshape(len(trials), width).cpu().numpy() for v in counts)
        losses = sample_losses(outputs, truth).reshape(len(trials), width).double().cpu().numpy()
    real = np.arange(width) < sizes[:, None]
    sums = ((values * real).sum(1).tolist() for values in (hits, most, losses))
    for correct, total, loss, n in zip(*sums, sizes.tolist(), strict=True):
        yield Score(correct, total, float(loss / max(n, 1)))
