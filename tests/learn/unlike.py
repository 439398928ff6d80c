"""The embedded digits on a perceptron, for methods whose clients train less than the whole model."""

from dataclasses import replace
from functools import cache, partial

import numpy as np

from fedfleet.choose.uniform import uniform
from fedfleet.core import aggregation
from fedfleet.core.events import ModelCommitted
from fedfleet.core.part_facts import FleetFacts
from fedfleet.core.parts import Job, Plan
from fedfleet.core.records import Context, Stop
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import World
from fedfleet.executors.gather import admit
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.pace.rounds import readiness
from fedfleet.simulation.simulator import simulate
from fedfleet.tasks.digits import digits_mlp
from fedfleet.tasks.narrow_models import shape_at
from fedfleet.world.devices import homogeneous
from fedfleet.world.partitions import dirichlet, make_shards
from fedfleet.world.states import always_on
from tests.worlds import only

CLIENTS = 9
FORMS = ("inline", "merged", "loop")


@cache
def task():
    return digits_mlp(16)(0)


@cache
def model(width):
    return shape_at(task(), width)


def facts(memory_mb=None, clients=CLIENTS, **more):
    """What a run of these digits knows; `memory_mb` is a list, one entry for each client."""
    memory = None if memory_mb is None else (lambda at: np.array(memory_mb, np.float64)[at])
    return FleetFacts(model, client_keys(clients), 5, memory, **more)


def executor(form):
    return inline(task()) if form == "inline" else stacked_executor(task(), form=form)


@cache
def world():
    keys = client_keys(CLIENTS)
    return World(keys, homogeneous()(keys, 0), always_on()(keys, 0), make_shards(dirichlet(0.5), task(), keys, 0))


def hashes(algorithm, form="inline", *, rounds=3, choose=None):
    """The models that a short run commits, by their hashes, and the events."""
    events = []
    plan = Plan(3, algorithm, choose or uniform(), readiness(6), Stop(rounds=rounds), task().init(3), CLIENTS)
    simulate(plan, world(), executor(form), watch=events.extend)
    return [e.model_hash for e in only(ModelCommitted, events)], events


def jobs_of(algorithm, clients=range(6), settings=None, seed=0):
    """One task for each client, with the first model; and that model."""
    server = algorithm.init(task().init(seed))
    result = []
    for i in clients:
        given = {} if settings is None else settings[i]
        offer, local = algorithm.offer(server, i, given), algorithm.local(i, given)
        result.append(Job(i, i, 100 + i, 7, offer, local, np.arange(40 * i, 40 * i + 20 + i), 0, settings=given))
    return server, result


def applied(algorithm, server, reports):
    """The model after a commit of these reports; whatever is refused fails the test."""
    acc = aggregation.zero(algorithm.fold, server)
    for r in reports:
        why = admit(algorithm.fold, server, acc, r, Context(0, 1.0, r.client), algorithm.accept)
        assert why is None, why
    return algorithm.apply(server, aggregation.finish(algorithm.fold, acc))


def reports_like(algorithm, jobs, fill):
    """Reports without training: `fill(job, leaf name, shape)` makes each leaf of the update."""
    plain = list(executor("inline").train(jobs))
    made = partial(_made, fill)
    return [replace(r, update=made(job, r.update)) for job, r in zip(jobs, plain, strict=True)]


def _made(fill, job, update):
    return {n: np.asarray(fill(job, n, v.shape), np.float32) for n, v in update.items()}
