"""Stacked against inline for tasks other than classification, on a CPU: small language models and regressions.

    python -m benchmarks.other_tasks

Every cell trains one cohort by the loop that everybody writes, by the inline executor and by the stacked one (form and threads as
a run with run.execute = "stacked" chooses them), in alternation: what else runs on the machine then falls on all alike. Times are
medians; both executors make their reports. The last ratio is of processor seconds: what the stack itself saves, without its
threads, and the only one that other work on the machine leaves alone. Ends in less than three minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

TASKS = ("text_gpt", "text_lstm", "digits_completion", "diabetes_mlp")
CELLS = ((10, 8), (20, 8), (20, 16), (20, 32), (100, 8))  # clients and batch
STEPS, REPEATS = 5, 5


@dataclass(frozen=True, slots=True)
class Cell:
    """Median seconds of one cohort in three ways, and how far the two executors' models lie apart."""

    loop: float
    inline: float
    stacked: float
    processor: float  # processor seconds of inline for one of the stacked executor
    apart: float


def measure(task: Any, cohort: int, batch: int, form: Any, *, steps: int = STEPS, repeats: int = REPEATS) -> Cell:
    """Train one cohort in the three ways, one after the other and again."""
    import torch

    from fedfleet.core.registry import builder
    from fedfleet.executors.bench import LR, Bench, algorithm_jobs, naive_loop
    from fedfleet.executors.inline import inline
    from fedfleet.executors.stacked.executor import stacked_executor

    algorithm = builder("algorithms", "fedavg")(lr=LR, batch=batch, steps=steps)
    jobs = algorithm_jobs(Bench(task, cohort, steps, batch), algorithm)
    x, y = torch.from_numpy(task.dataset.x), torch.from_numpy(task.dataset.y)
    stacked = stacked_executor(task, threads=form.threads, form=form.name)
    literal = inline(task, threads=1)

    def plain() -> None:
        torch.set_deterministic_debug_mode("default")  # nobody's own loop pays for it; both executors do
        naive_loop(task, jobs, x, y, lr=LR)
        torch.set_deterministic_debug_mode("error")

    ways: tuple[Callable[[], Any], ...] = (plain, lambda: [*literal.train(jobs)], lambda: [*stacked.train(jobs)])
    list(stacked.train(jobs))
    seconds: list[list[float]] = [[], [], []]
    worked: list[list[float]] = [[], [], []]
    answers: list[Any] = [None, None, None]
    for _ in range(repeats):
        for k, way in enumerate(ways):
            start, before = time.perf_counter(), time.process_time()
            answers[k] = way()
            seconds[k].append(time.perf_counter() - start)
            worked[k].append(time.process_time() - before)
    processor = median(worked[1]) / median(worked[2])
    return Cell(*(median(each) for each in seconds), processor=processor, apart=largest_gap(answers[1], answers[2], jobs))


def largest_gap(reference: Sequence[Any], reports: Sequence[Any], jobs: Sequence[Any]) -> float:
    """The largest difference of two models' tensors, in units of the tensor's largest value."""
    import numpy as np

    worst = 0.0
    for a, b, job in zip(reference, reports, jobs, strict=True):
        for name, change in a.update.items():
            size = float(np.abs(change + job.offer.params[name]).max())
            worst = max(worst, float(np.abs(change - b.update[name]).max()) / max(size, 1e-12))
    return worst


def main() -> None:
    """Print one line for each cell."""
    from fedfleet.core.registry import builder
    from fedfleet.executors.stacked.form_choice import Form, choose_form

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=TASKS)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of the stacked executor at most")
    parser.add_argument("--form", help="train so, instead of in the form that is fastest: other work can spoil that measurement")
    asked = parser.parse_args()
    print(f"{STEPS} steps a client; load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
    print(f"{'task':<18} clients batch   loop ms inline ms stacked ms  of loop of inline processor    apart form")
    for name in asked.tasks:
        task = builder("tasks", name)()(0)
        form = Form(asked.form, asked.threads) if asked.form else choose_form(task, device="cpu", threads=asked.threads)
        for cohort, batch in CELLS:
            cell = measure(task, cohort, batch, form)
            print(
                f"{name:<18} {cohort:>7} {batch:>5} {1e3 * cell.loop:>9.1f} {1e3 * cell.inline:>9.1f} {1e3 * cell.stacked:>10.1f} "
                f"{cell.loop / cell.stacked:>7.1f}x {cell.inline / cell.stacked:>7.1f}x {cell.processor:>8.1f}x {cell.apart:>7.0e} {form.name} x{form.threads}",
                flush=True,
            )
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
