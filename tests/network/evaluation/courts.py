"""Courts that a judge's process can build by name, without torch: honest ones, slow ones, and such as die or fail."""

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Executor, Plan
from fedfleet.core.records import Score, Stop
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import DataSource, World
from fedfleet.network.evaluation.evaluators import EvalContext
from fedfleet.pace.rounds import readiness
from fedfleet.testing.toys import consensus, consensus_start, opaque_executor
from fedfleet.world.devices import homogeneous
from fedfleet.world.states import always_on

CLIENTS = 5


def scored(trial):
    """A score that depends on every bit of the parameters and rows."""
    correct = int(trial.params["w"].view(np.uint32).sum() % 97) + int(trial.rows.sum())
    return Score(correct, 1000 + len(trial.rows), float(trial.params["w"].astype(np.float64).sum()) / 3)


def court(facts):
    """What is judged is a sum of bits; `loss` may be put to something that is no number."""
    keys = client_keys(CLIENTS)
    data = DataSource(
        lambda client, split, round: np.arange(client + 1),
        lambda round: np.full(CLIENTS, 10),
        np.arange(7),
        np.arange(CLIENTS),
    )
    world = World(keys, homogeneous()(keys, 0), always_on()(keys, 0), data)
    plan = Plan(0, consensus(), uniform(), readiness(2), Stop(rounds=1), consensus_start(), CLIENTS)
    loss = facts.get("loss")

    def evaluate(trials):
        result = [scored(trial) for trial in trials]
        return result if loss is None else [replace(s, loss=float(loss)) for s in result]

    return EvalContext(plan, world, Executor("toy", opaque_executor().train, evaluate))


def slow(facts):
    """Takes its time over each model."""
    result = court(facts)

    def evaluate(trials):
        time.sleep(facts["seconds"])
        return result.execute.evaluate(trials)

    return replace(result, execute=replace(result.execute, evaluate=evaluate))


def dying(facts):
    """Dies over the first models, as many as `deaths` says, and keeps count in a file."""
    result, count = court(facts), Path(facts["count"])

    def evaluate(trials):
        if count.stat().st_size < facts["deaths"]:
            with count.open("ab") as file:
                file.write(b"x")
            os.write(2, b"first word\nno memory left\n")
            os.kill(os.getpid(), 9)
        return result.execute.evaluate(trials)

    return replace(result, execute=replace(result.execute, evaluate=evaluate))


def failing(facts):
    """Cannot judge a model whose first number is negative."""
    result = court(facts)

    def evaluate(trials):
        if any(trial.params["w"][0] < 0 for trial in trials):
            raise ArithmeticError("a negative model")
        return result.execute.evaluate(trials)

    return replace(result, execute=replace(result.execute, evaluate=evaluate))


def unbuilt(facts):
    """Cannot be built from what a person wrote."""
    raise BadInput("the task 'x' is unknown; use another")
