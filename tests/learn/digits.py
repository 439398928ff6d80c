"""Short runs of a method on the embedded digits, which eight clients hold."""

from functools import cache, partial

from fedfleet.choose.uniform import uniform
from fedfleet.core.events import ModelCommitted
from fedfleet.core.parts import Plan
from fedfleet.core.records import Stop
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import World
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.pace.rounds import readiness
from fedfleet.simulation.simulator import simulate
from fedfleet.tasks.digits import digits_logreg
from fedfleet.world.devices import homogeneous
from fedfleet.world.partitions import dirichlet, make_shards
from fedfleet.world.states import always_on
from tests.worlds import only

CLIENTS = 8
FORMS = (inline, partial(stacked_executor, form="merged"), partial(stacked_executor, form="loop"))


@cache
def task():
    return digits_logreg()(0)


@cache
def world():
    keys = client_keys(CLIENTS)
    return World(keys, homogeneous()(keys, 0), always_on()(keys, 0), make_shards(dirichlet(0.5), task(), keys, 0))


def trained(algorithm, *, rounds=2, cohort=4, execute=inline):
    """The events of a short run, and where it ended."""
    events = []
    plan = Plan(3, algorithm, uniform(), readiness(cohort), Stop(rounds=rounds), task().init(3), CLIENTS)
    end = simulate(plan, world(), execute(task()), watch=events.extend)
    return events, end


def models(events):
    """The hashes of the models that a run committed."""
    return [e.model_hash for e in only(ModelCommitted, events)]
