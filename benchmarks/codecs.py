"""What codecs save and what they take, on a tree of the size of FS-REAL's FEMNIST model (3,327,934 numbers):

    python -m benchmarks.codecs [--task femnist_cnn] [--repeats 3]
    python -m benchmarks.codecs --device cuda --cohort 100          # stacks of clients through the codecs, where they are

(a) noise, (b) the update of one client of this task after two epochs. Bytes are the length of what is really sent; seconds are of one
message on one thread. `of FP32` is the share of 4 bytes a number; the error is the length of what is lost against the length of the tree.
"""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from fedfleet.core.codec import Codec
from fedfleet.core.parts import Job, Task
from fedfleet.core.passes import NO_SETTINGS
from fedfleet.core.records import ServerState
from fedfleet.core.registry import builder
from fedfleet.core.trees import Tree, tree_nbytes
from fedfleet.executors.inline import inline
from fedfleet.learn.codecs.chain import chain
from fedfleet.learn.codecs.messages import decode_bytes, encode_bytes, round_trip
from fedfleet.learn.zoo import fedavg

Table = tuple[str, dict[str, Any]]
CODECS: list[list[Table]] = [
    [("gzip", {})], [("gzip", {"shuffle": True})], [("gzip", {"effort": 1, "shuffle": True})],
    [("zstd", {})], [("zstd", {"shuffle": True})],
    [("fp16", {})], [("fp16", {}), ("gzip", {"shuffle": True})], [("bf16", {})],
    [("int8", {})], [("int8", {}), ("gzip", {})], [("int8", {"rounding": "stochastic"})],
    *([(f"int{bits}", {})] for bits in (7, 6, 5, 4, 3, 2)), [("int4", {}), ("gzip", {})],
    [("topk", {"share": 0.05})], [("topk", {"share": 0.05}), ("int8", {}), ("gzip", {})], [("randomk", {"share": 0.05})],
    [("sketch", {})], [("lowrank", {"rank": 8})], [("lowrank", {"energy": 0.95})],
]  # fmt: skip


STACKED: list[list[Table]] = [
    [("fp16", {})], [("bf16", {})], [("int8", {})], [("int4", {})], [("int4", {"rounding": "stochastic"})], [("topk", {})],
    [("topk", {}), ("int8", {})], [("randomk", {})],
]  # fmt: skip


def shown(parts: list[Table]) -> str:
    return "+".join(n + "".join(f" {k}={v}" for k, v in given.items()) for n, given in parts)


def trained_update(task: Task) -> Tree:
    """What one client of this task sends after two epochs on sixty samples."""
    algorithm, server = fedavg(lr=0.05), ServerState(task.init(0))
    offer, local = algorithm.offer(server, 0, NO_SETTINGS), algorithm.local(0, NO_SETTINGS)
    return next(iter(inline(task).train([Job(0, 0, 1, 7, offer, local, np.arange(60))]))).update


def timed(work: Any, repeats: int) -> tuple[Any, float]:
    """What it gives, and the seconds that it takes at best."""
    found, best = None, float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        found = work()
        best = min(best, time.perf_counter() - start)
    return found, best


def row(codec: Codec, name: str, tree: Tree, repeats: int) -> str:
    data, there = timed(lambda: encode_bytes(codec, tree), repeats)
    back, again = timed(lambda: decode_bytes(codec, data, tree), repeats)
    lost = np.sqrt(sum(float(np.square(back[n].astype(np.float64) - v).sum()) for n, v in tree.items()))
    whole = np.sqrt(sum(float(np.square(v.astype(np.float64)).sum()) for v in tree.values()))
    share = len(data) / tree_nbytes(tree)
    return f"{name:<28} {len(data):>12,} {share:>9.2%} {1000 * there:>9.0f} {1000 * again:>9.0f} {lost / whole:>9.4f}"


def on_a_stack(codec: Codec, name: str, tree: Tree, clients: int, device: str) -> str:
    """A whole cohort's updates through the lossy half, where they are; and whether the first has the bits that are sent here."""
    stack = {n: torch.from_numpy(v).to(device).expand(clients, *v.shape).contiguous() for n, v in tree.items()}
    where = np.arange(clients, dtype=np.int64)
    taken: list[float] = []
    found: dict[str, Any] = {}
    for _ in range(3):
        begin = time.perf_counter()
        found = round_trip(codec, stack, where)
        if device != "cpu":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - begin)
    alone = decode_bytes(codec, encode_bytes(codec, tree, int(where[0])), tree)
    same = all(found[n][0].cpu().numpy().tobytes() == v.tobytes() for n, v in alone.items())
    return f"{name:<28} {1000 * min(taken):>9.1f} ms for {clients} clients on {device}, {'the same bits' if same else 'OTHER BITS'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="femnist_cnn")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", help="time stacks of clients there instead, and compare the bits")
    parser.add_argument(
        "--synthetic", action="store_true", help="made-up data of the task's shape, where the real ones are not here"
    )
    parser.add_argument("--cohort", type=int, default=100)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    update = trained_update(builder("tasks", asked.task)(**({"synthetic": True} if asked.synthetic else {}))(0))
    rng = np.random.default_rng(0)
    noise = {n: rng.standard_normal(v.shape).astype(np.float32) for n, v in update.items()}
    for title, tree in (("noise", noise), (f"a trained update of {asked.task}", update)):
        if asked.device:
            torch.set_deterministic_debug_mode("error")
            for parts in STACKED:
                codec = chain([builder("codecs", n)(**given) for n, given in parts])
                assert codec is not None
                print(on_a_stack(codec, shown(parts), tree, asked.cohort, asked.device), flush=True)
            continue
        print(
            f"{title}, {tree_nbytes(tree):,} bytes as FP32\n{'codec':<28} {'bytes':>12} {'of FP32':>9} {'enc ms':>9} {'dec ms':>9} {'error':>9}"
        )
        for parts in CODECS:
            if any(n == "zstd" for n, _ in parts) and find_spec("zstandard") is None:
                print(f"{'zstd':<28} the package zstandard is not installed")
                continue
            codec = chain([builder("codecs", n)(**given) for n, given in parts])
            assert codec is not None
            print(row(codec, shown(parts), tree, asked.repeats), flush=True)


if __name__ == "__main__":
    main()
