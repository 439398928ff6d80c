"""What a transmitter spends on one report of the size of FS-REAL's FEMNIST model (3,327,934 float32, 13.31 MB):

    python -m benchmarks.folding [--folder FOLDER] [--repeats 9] [--elements 3327934]

Best and median of the repeats, on one thread; the file figures are those of the disk under FOLDER.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedfleet.core import clip, exact
from fedfleet.core.aggregation import Fold
from fedfleet.core.records import ServerState
from fedfleet.network.frontend import sum_kernel
from fedfleet.network.frontend.partial_sums import LogEntry, PartialSums, fold_layout, refusal
from fedfleet.network.frontend.report_log import checksum
from fedfleet.network.frontend.spool import Spool

# FEMNIST's two convolutions and two dense layers, as shares of the whole: few large leaves, some small.
SHARES = (0.0003, 0.0157, 0.965, 0.019)


def tree_of(elements: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    sizes = [int(elements * share) for share in SHARES[:-1]]
    sizes.append(elements - sum(sizes))
    return {f"leaf{i}": rng.normal(0.0, 0.01, size).astype(np.float32) for i, size in enumerate(sizes)}


def timed(name: str, work: Callable[[], object], repeats: int) -> None:
    work()
    took: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        took.append(1000 * (time.perf_counter() - start))
    print(f"{name:<34} {min(took):>8.2f} {statistics.median(took):>8.2f}")


def entered(task: int) -> LogEntry:
    return LogEntry(task, task, task, 0.0, 60.0, 1.0, "", 0, 0, ("loss", "train"), (1.0, 2.0), 1)


def loops(tree: dict[str, np.ndarray], fine: bool, repeats: int) -> None:
    like = {n: np.zeros_like(v) for n, v in tree.items()}
    fold = Fold(lambda server: like, fine=(lambda name: True) if fine else None)
    sheet = fold_layout(fold, ServerState({}))
    limbs = "two limbs" if fine else "one limb"
    acc = exact.zero(like, sheet.scales)
    timed(f"add, numpy, {limbs}", lambda: exact.add(acc, tree, 60.0, sheet.scales), repeats)
    timed(
        f"add, kernel, {limbs}",
        lambda: sum_kernel.add(acc, tree, 60.0, sheet.scales, factor=1.0, units=exact.weight_units(60.0)),
        repeats,
    )
    if not fine:
        timed("check, numpy", lambda: exact.refusal(tree, 60.0, like, sheet.scales, 2.0**24), repeats)
        timed("check, kernel", lambda: refusal(sheet, tree, 60.0), repeats)
        timed("norm for clipping, numpy", lambda: clip.squares_of(tree, sheet.scales), repeats)
        timed("norm for clipping, kernel", lambda: sum_kernel.squares_of(tree, sheet.scales), repeats)


def disk(tree: dict[str, np.ndarray], folder: Path, repeats: int) -> None:
    sheet = fold_layout(Fold(lambda server: tree), ServerState({}))
    sums, tasks = PartialSums(sheet, folder / "sums"), iter(range(10**6))
    timed("add to a bucket, log entry too", lambda: sums.add(0, entered(next(tasks)), tree), repeats)
    timed("freeze", lambda: (sums.add(0, entered(next(tasks)), tree), _timed_freeze(sums)), repeats)
    print(f"{'  of that freeze alone':<34} {1000 * min(FREEZES):>8.2f} {1000 * statistics.median(FREEZES):>8.2f}")
    frozen = [sums.freeze()]
    frozen[0].write()

    def commit() -> None:
        frozen[0] = sums.freeze()
        frozen[0].write()

    timed("write and sync (nothing new frozen)", commit, repeats)
    spool, payload = Spool(folder / "spool"), np.concatenate([v.view(np.uint8) for v in tree.values()]).tobytes()
    timed("spool and sync", lambda: (spool.add(0, entered(next(tasks)), payload), spool.sync()), repeats)
    timed("crc32c", lambda: checksum(payload), repeats)


FREEZES: list[float] = []


def _timed_freeze(sums: PartialSums) -> None:
    start = time.perf_counter()
    sums.freeze()
    FREEZES.append(time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--elements", type=int, default=3_327_934)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    tree = tree_of(given.elements)
    start = time.perf_counter()
    said = sum_kernel.speed_warning(tree)
    print(f"loading the kernel took {time.perf_counter() - start:.2f} s; {said or 'numba is there'}")
    print(f"{'ms for one report':<34} {'best':>8} {'median':>8}")
    loops(tree, False, given.repeats)
    loops(tree, True, given.repeats)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        disk(tree, Path(folder), given.repeats)


if __name__ == "__main__":
    main()
