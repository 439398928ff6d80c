"""A small fleet on the embedded digits, and short runs on it."""

from fedfleet.choose.uniform import uniform
from fedfleet.core.parts import Plan
from fedfleet.core.records import Stop
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import World
from fedfleet.pace.rounds import readiness
from fedfleet.simulation.simulator import simulate
from fedfleet.tasks.digits import digits_logreg
from fedfleet.world.devices import homogeneous
from fedfleet.world.partitions import dirichlet, make_shards
from fedfleet.world.states import always_on

CLIENTS = 8
TASK = digits_logreg()(0)


def small_world():
    keys = client_keys(CLIENTS)
    return World(keys, homogeneous()(keys, 0), always_on()(keys, 0), make_shards(dirichlet(0.5), TASK, keys, 0))


def small_run(algorithm, execute, *, rounds=2, cohort=4):
    """Where a short run ended."""
    plan = Plan(3, algorithm, uniform(), readiness(cohort), Stop(rounds=rounds), TASK.init(3), CLIENTS)
    return simulate(plan, small_world(), execute)
