"""Laws that every registered selector keeps in every world: renaming, doubling, resuming, and training late."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.parts import Selector
from fedfleet.core.records import Report, Stop
from fedfleet.core.registry import builder, names
from fedfleet.core.rng import hash_keys
from fedfleet.core.sources import DataSource
from fedfleet.engine.checkpoint import freeze, thaw
from fedfleet.simulation.simulator import Simulation, resume_simulation, simulate
from fedfleet.testing.toys import consensus, opaque_executor
from tests.portions import examples
from tests.testing.registered import built
from tests.worlds import doubled, events_of, fleets, paces, plain, renamed, toy_plan, world_of

pytestmark = pytest.mark.slow

law = examples(5, soak=20)

# What to give selectors so that a short run in a small world meets all of their rules, by name, as functions of the scale of time
# and of the order in which clients are numbered (whoever names clients must name them anew). The others are as registered.
GIVEN = {
    "timely": lambda scale, order: {"seconds": 45.0 * scale, "least": 0.01},
    "timely_interval": lambda scale, order: {"k": 2},
    "power_of_choice": lambda scale, order: {"d": 5, "probe_seconds": 32.0 * scale},
    "flame": lambda scale, order: {"seconds": 12.0 * scale},
    "only": lambda scale, order: {"ids": [i for i, old in enumerate(order or range(12)) if old % 2 == 0]},
    "oort": lambda scale, order: {"explore": 0.6, "decay": 0.7, "pacer_step": 2, "preferred": 0.3, "blacklist": 2},
}


def made(name, *, scale: float = 1.0, order=None) -> Selector:
    """The selector of this name, for a world at this scale of time in which client i was client order[i]."""
    return builder("selectors", name)(**GIVEN[name](scale, order)) if name in GIVEN else built("selectors", name)


def telling():
    """The toy with statistics as passes report them, unlike for every client and round."""
    toy = consensus()

    def report(job, dataset):
        told = toy.local(job.client, {})(job, dataset)
        loss = 1.0 + float(hash_keys(5, "loss", np.array([job.key], np.uint64), job.round)[0] % np.uint64(64)) / 16
        stats = {
            "loss": loss,
            "squared_loss": loss * loss,
            "samples": float(job.key % 7 + 3),
            "steps": 2.0,
            "update_norm": loss / 2,
        }
        return Report(told.task, told.client, told.update, told.weight, stats)

    return replace(toy, local=lambda client, settings: report)


def world_for(fleet):
    """The fleet as a world whose clients hold unlike numbers of samples."""
    world, sizes = world_of(fleet), (3 + fleet.keys % np.uint64(5)).astype(np.int64)
    rows = np.zeros(0, np.int64)
    return replace(world, data=DataSource(lambda client, split, round: rows, lambda round: sizes, rows, rows))


def plan_for(name, fleet, pace, *, scale: float = 1.0, order=None):
    choose = made(name, scale=scale, order=order)
    if choose.by_round and pace.kind in ("buffered", "eager_commits"):
        pace = replace(pace, kind="readiness")
    stop = Stop(rounds=6, virtual_seconds=3000.0 * scale)
    return toy_plan(pace.policy(scale), len(fleet), choose=choose, algorithm=telling(), stop=stop)


def shown(plan, fleet, **how):
    return [plain(e, **how) for e in events_of(plan, world_for(fleet))[0]]


every_selector = pytest.mark.parametrize("name", names("selectors"))


@every_selector
@law
@given(fleet=fleets(max_clients=12), pace=paces(), random=st.randoms(use_true_random=False))
def test_renaming_clients_renames_the_journal_and_nothing_else(name, fleet, pace, random):
    order = list(range(len(fleet)))
    random.shuffle(order)
    after = shown(plan_for(name, fleet, pace, order=order), renamed(fleet, order), names=order)
    assert after == shown(plan_for(name, fleet, pace), fleet)


@every_selector
@law
@given(fleet=fleets(max_clients=12), pace=paces())
def test_doubling_all_durations_doubles_all_times_and_changes_nothing_else(name, fleet, pace):
    twice = shown(plan_for(name, fleet, pace, scale=2.0), doubled(fleet))
    assert twice == shown(plan_for(name, fleet, pace), fleet, scale=2.0)


class Kept:
    """Keeps what a checkpoint would hold, and how many events there were, whenever one could be made."""

    def __init__(self):
        self.events, self.found = [], []

    def save_if_due(self, sim):
        self.found.append((len(self.events), freeze(sim.state)))


@every_selector
@examples(3, soak=12)
@given(fleet=fleets(max_clients=8), pace=paces())
def test_from_every_checkpoint_the_rest_is_the_same(name, fleet, pace):
    plan, world, kept = plan_for(name, fleet, pace), world_for(fleet), Kept()
    simulate(plan, world, opaque_executor(), watch=kept.events.extend, keeper=kept)
    whole = [plain(e) for e in kept.events]
    for position, frozen in kept.found[:: max(1, len(kept.found) // 12)]:
        meta, arrays = frozen
        state = thaw(meta, {column: np.array(values) for column, values in arrays.items()})
        sim = Simulation(plan, world, opaque_executor(), False, state, busy=np.zeros(len(fleet), np.bool_))
        rest = []
        simulate(plan, world, opaque_executor(), resume=resume_simulation(sim), watch=rest.extend)
        assert [plain(e) for e in rest] == whole[position:]


@every_selector
@examples(4, soak=12)
@given(fleet=fleets(max_clients=8), pace=paces())
def test_training_at_once_gives_the_same_events_as_training_late(name, fleet, pace):
    plan, world = plan_for(name, fleet, pace), world_for(fleet)
    late, at_once = ([plain(e) for e in events_of(plan, world, eager=eager)[0]] for eager in (False, True))
    assert at_once == late
