"""Clients whose losses are parabolas, a/2 (w - b)^2: what a method converges to can be worked out by hand."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from torch import nn

from fedfleet.choose.uniform import uniform
from fedfleet.core.parts import Dataset, Loss, Plan, Task
from fedfleet.core.records import Stop
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import DataSource, World
from fedfleet.executors.inline import inline
from fedfleet.learn.objectives import with_loss
from fedfleet.pace.rounds import readiness
from fedfleet.simulation.simulator import simulate
from fedfleet.world.devices import homogeneous
from fedfleet.world.states import always_on

HALF_SQUARE = Loss(lambda outputs, labels: 0.5 * (outputs[:, 0] - labels) ** 2)


def settled(algorithm, parabolas, *, rounds, cohort=None, seed=3):
    """Where training ends, and the run; each parabola is (root of a, b, samples), and every sample says the same."""
    sizes = [n for _, _, n in parabolas]
    x = np.concatenate([np.full((n, 1), root, np.float32) for root, _, n in parabolas])
    y = np.concatenate([np.full(n, root * b, np.int64) for root, b, n in parabolas])
    firsts = np.cumsum([0, *sizes])
    shards = [np.arange(a, b) for a, b in pairwise(firsts)]

    def build():
        return nn.Linear(1, 1, bias=False)

    task = Task("parabolas", Dataset(x, y, 2), np.arange(1), build, lambda seed: {"weight": np.zeros((1, 1), np.float32)})
    task = replace(task, loss=HALF_SQUARE)
    keys, none = client_keys(len(sizes)), np.zeros(0, np.int64)
    data = DataSource(
        lambda client, split, round: shards[client] if split == "train" else none, lambda round: np.array(sizes), none, np.arange(1)
    )  # fmt: skip
    world = World(keys, homogeneous()(keys, 0), always_on()(keys, 0), data)
    pace = readiness(cohort or len(sizes), ready_share=1.0)
    plan = Plan(seed, with_loss(algorithm, HALF_SQUARE), uniform(), pace, Stop(rounds=rounds), task.init(0), len(sizes))
    end = simulate(plan, world, inline(task))
    return float(end.state.server.params["weight"][0, 0]), end


def optimum(parabolas, weigh="one"):
    """Where the sum of the losses is least, clients alike or by samples."""
    weight = [root**2 * (n if weigh == "samples" else 1) for root, _, n in parabolas]
    return float(np.average([b for _, b, _ in parabolas], weights=weight))
