"""A whole run by pfl-research's CIFAR10 protocol: 1,000 clients x 50 images, cohort 50, one epoch of batch 10, SGD 0.1,
1,500 rounds, 10,000 images evaluated every 10 rounds. Engine, journal digest and exact fold included. Images are made up, or
Fashion-MNIST with a network of the same kind, to compare what stacked learns with what the literal loop learns.

    python -m benchmarks.cifar_protocol --device cuda --tf32 [--rounds 1500]
    python -m benchmarks.cifar_protocol --images fashion --execute inline
"""

from __future__ import annotations

import argparse
import time


def main() -> None:
    import numpy as np

    from fedfleet.choose.uniform import uniform
    from fedfleet.core.events import Evaluated
    from fedfleet.core.parts import Plan, Task
    from fedfleet.core.records import Stop
    from fedfleet.core.registry import builder
    from fedfleet.core.rng import client_keys, stream
    from fedfleet.core.sources import DataSource, World
    from fedfleet.executors.inline import inline
    from fedfleet.executors.stacked.executor import stacked_executor
    from fedfleet.learn.zoo import fedavg
    from fedfleet.pace.rounds import readiness
    from fedfleet.simulation.simulator import simulate
    from fedfleet.store import journal as journals
    from fedfleet.world.devices import homogeneous
    from fedfleet.world.states import always_on

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=1500)
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--images", choices=("synthetic", "fashion"), default="synthetic")
    parser.add_argument("--execute", choices=("stacked", "inline"), default="stacked")
    asked = parser.parse_args()
    made: Task
    if asked.images == "fashion":
        made = builder("tasks", "fashion_cnn")(hidden=128, samples=60_000)(0)
    else:
        made = builder("tasks", "cifar_cnn")(synthetic=True, samples=60_000)(0)
    order = stream(0, "cifar").permutation(60_000)
    shards, holdout, none = order[:50_000].reshape(1000, 50), order[50_000:], np.zeros(0, np.int64)
    data = DataSource(lambda client, split, round: shards[client], lambda round: np.full(1000, 50), none, holdout)
    keys = client_keys(1000)
    world = World(keys, homogeneous()(keys, 0), always_on()(keys, 0), data)
    stop = Stop(rounds=asked.rounds, evaluate_every=10)
    plan = Plan(0, fedavg(lr=0.1, epochs=1, batch=10), uniform(), readiness(50), stop, made.init(0), 1000)
    log: list[Evaluated] = []
    journal = journals.memory_journal()
    start = time.perf_counter()
    execute = inline(made) if asked.execute == "inline" else stacked_executor(made, device=asked.device, tf32=asked.tf32)
    simulate(
        plan,
        world,
        execute,
        journal=journal,
        watch=lambda events: log.extend(e for e in events if isinstance(e, Evaluated)),
    )
    seconds = time.perf_counter() - start
    scores = [e.correct / e.total for e in log]
    last = scores[-10:]  # of the last hundred rounds: single ones swing
    print(f"{asked.images} images, {asked.execute}, {asked.rounds} rounds on {asked.device}{' with tf32' if asked.tf32 else ''}: "
          f"{seconds:.1f} s ({1000 * seconds / asked.rounds:.1f} ms a round, warming up included), "
          f"accuracy {scores[0]:.4f} to {scores[-1]:.4f}, mean of the last ten {sum(last) / len(last):.4f}")  # fmt: skip


if __name__ == "__main__":
    main()
