"""Speed of a cohort: stacked against the loop that everybody writes, task by task, in one process.

    python -m benchmarks.cohorts --device cuda --tf32 --cohort 100 --steps 12 --batch 16 femnist_cnn mlp logreg har_cnn char_lstm

Needs torch and numpy only beside this package, so that it runs where nothing can be installed.
"""

from __future__ import annotations

import argparse
import os


def main() -> None:
    from fedfleet.core.registry import builder
    from fedfleet.executors.bench import Bench, compare
    from fedfleet.executors.stacked.form_choice import candidates

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cohort", type=int, default=50)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    for name in asked.tasks:
        samples = max(200, min(asked.cohort * asked.steps * asked.batch, 20_000))
        task = builder("tasks", name)(synthetic=True, samples=samples)(0)
        for form, threads in candidates(asked.device, len(os.sched_getaffinity(0))):
            got = compare(
                Bench(task, asked.cohort, asked.steps, asked.batch, asked.device, threads, asked.tf32, form, asked.repeats)
            )
            print(
                f"{name:<12} cohort {asked.cohort} {got.form} x{threads}{' tf32' if asked.tf32 else ''}: loop {got.naive_seconds:.4f} s, "
                f"stacked {got.stacked_seconds:.4f} s, {got.naive_seconds / got.stacked_seconds:.1f}x; largest difference "
                f"{got.max_rel_difference:.1e} of a tensor; GPU {got.peak_gpu_mb:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
