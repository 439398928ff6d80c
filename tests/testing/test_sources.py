"""Every registered source of a world passes its check; sources that break a rule do not."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedfleet import testing
from fedfleet.core.quorum import earliest_by_polling
from fedfleet.core.registry import names
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import DataSource, DeviceSource, EnergySource, StateSource
from fedfleet.tasks.digits import digits_logreg
from fedfleet.world.faults import crashes, lossy
from tests.testing.registered import built

KEYS = client_keys(30)
TASK = digits_logreg()(0)


@pytest.mark.parametrize("name", [n for n in names("devices") if not n.endswith("_file")])
def test_devices(name):
    testing.check_device_source(built("devices", name)(KEYS, 1), len(KEYS), quiet=True)


@pytest.mark.parametrize("name", [n for n in names("states") if not n.endswith("_file")])
def test_states(name):
    testing.check_state_source(built("states", name)(KEYS, 1), len(KEYS), quiet=True)


@pytest.mark.parametrize("name", names("partitions"))
def test_partitions(name):
    task = TASK
    if name == "by_owner":
        task = replace(TASK, dataset=replace(TASK.dataset, owner=np.arange(len(TASK.dataset.y)) % 20))
    testing.check_partition(lambda: built("partitions", name), task, quiet=True)


@pytest.mark.parametrize("name", [n for n in names("energy") if not n.endswith("_file")])
def test_energy(name):
    devices = built("devices", "spread")(KEYS, 1)
    testing.check_energy_source(built("energy", name)(devices, KEYS, 1), len(KEYS), quiet=True)


# ---- energy that breaks a rule ------------------------------------------------------------------------------------


def joules(rule):
    return EnergySource(lambda clients, spent, start: {"joules": rule(clients, sum(spent.values(), 0.0 * start), start)})


BAD_ENERGY = {
    "one number for all": (lambda clients, worked, start: np.ones(1), "one finite number"),
    "infinite": (lambda clients, worked, start: worked / 0.0, "one finite number"),
    "charges batteries": (lambda clients, worked, start: -worked, "must not be negative"),
    "draws at random": (lambda clients, worked, start: worked * np.random.default_rng().random(), "asked twice"),
    "looks at who else is asked": (lambda clients, worked, start: worked * len(clients), "who else"),
    "less for more": (lambda clients, worked, start: worked * (worked < 50), "draw less"),
    "something for nothing": (lambda clients, worked, start: worked + 1.0, "draw nothing"),
    "parts larger than the whole": (
        lambda clients, worked, start: worked + 99.0 * ((worked > 0) & (worked < 8)),
        "alone",
    ),
}


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("name", BAD_ENERGY)
def test_an_energy_source_that_breaks_a_rule_is_caught(name):
    rule, why = BAD_ENERGY[name]
    with pytest.raises(AssertionError, match=why):
        testing.check_energy_source(joules(rule), 8)


def test_a_stage_is_not_a_charge():
    with pytest.raises(AssertionError, match="is a stage"):
        testing.check_energy_source(EnergySource(lambda clients, spent, start: {"compute": 0.0 * start}), 8)


@pytest.mark.parametrize("name", names("faults"))
def test_faults(name):
    testing.check_fault_source(built("faults", name)(KEYS, 1), len(KEYS), quiet=True)


@pytest.mark.parametrize("name", names("faults"))
def test_faults_follow_their_clients_when_these_are_renamed(name):
    one, other = (built("faults", name)(keys, 1) for keys in (KEYS, KEYS[::-1].copy()))
    clients, tasks, ends = np.arange(30), np.arange(30) * 7, np.full(30, 9e5)
    here, there = one.draw(clients, 5.0, ends, tasks), other.draw(29 - clients, 5.0, ends, tasks)
    for column in ("stage", "part", "crash", "noticed", "late", "again"):
        assert np.array_equal(getattr(here, column), getattr(there, column)), column
    assert np.array_equal(one.slowdown(clients, 5.0, tasks), other.slowdown(29 - clients, 5.0, tasks))
    if one.away is not None:
        assert all(np.array_equal(one.away(t), other.away(t)[::-1]) for t in np.arange(0.0, 2e5, 997.0))


# ---- devices that break a rule ------------------------------------------------------------------------------------


def drifting():
    calls = []

    def seconds(clients, cost, start, tasks):
        calls.append(clients)
        return np.full(len(clients), float(len(calls)))

    return seconds


BAD_DEVICES = {
    "answers differently": (drifting(), "asked twice"),
    "faster with more work": (lambda clients, cost, start, tasks: 1.0 / cost.samples, "more work"),
    "negative": (lambda clients, cost, start, tasks: -cost.samples, "not negative"),
    "one number for all": (lambda clients, cost, start, tasks: np.ones(1), "one number per client"),
    "looks at who else is asked": (
        lambda clients, cost, start, tasks: cost.samples * len(clients),
        "must not depend on who else",
    ),
}


@pytest.mark.parametrize("name", BAD_DEVICES)
def test_a_device_source_that_breaks_a_rule_is_caught(name):
    seconds, why = BAD_DEVICES[name]
    with pytest.raises(AssertionError, match=why):
        testing.check_device_source(DeviceSource(seconds, ["toy"] * 8), 8)


def test_every_client_needs_a_kind():
    with pytest.raises(AssertionError, match="a kind"):
        testing.check_device_source(DeviceSource(lambda clients, cost, start, tasks: cost.samples, ["toy"]), 8)


# ---- states that break a rule -------------------------------------------------------------------------------------


def on(time):
    return np.ones(8, np.bool_)


def ends(clients, start, seconds):
    return start + seconds


def only_forward():
    """Pure as long as time does not go back."""
    latest = [0.0]

    def online(time):
        latest[0] = max(latest[0], time)
        return np.full(8, int(latest[0] // (30 * 3600)) % 2 == 0)

    return online


def shifts(time):
    """Nobody in the first half hour, half of the clients in the next, the others in the one after; then all over again."""
    return np.arange(8) % 2 + 1 == int(time // 1800) % 3


LOOK = earliest_by_polling(shifts, 1800.0, repeats=5400.0)


def moments(result):
    """The shifts, with this `earliest`."""
    return StateSource(shifts, ends, result)


def test_a_source_that_says_when_enough_are_there_passes():
    testing.check_state_source(moments(LOOK), 8)


BAD_STATES = {
    "comes before it is asked": (moments(lambda among, n, start, until: 0.0), "which is before"),
    "says yes too early": (moments(lambda among, n, start, until: start), "there should be 1 clients, and there are 0"),
    "says yes too late": (moments(lambda among, n, start, until: LOOK(among, n, start, until) + 900.0), "already"),
    "never says yes": (moments(lambda among, n, start, until: math.inf), "already"),
    "says yes to more than there are": (
        moments(lambda among, n, start, until: LOOK(among, min(n, int(among.sum())), start, until)),
        "of 4 that may come",
    ),
    "does not know the horizon": (moments(lambda among, n, start, until: LOOK(among, n, start, 1e9)), "before `until`"),
    "depends on who asks when": (
        moments(lambda among, n, start, until: LOOK(among, n, start, until) + (1.0 if start > 1000.0 else 0.0)),
        "the same moment",
    ),
    "cannot go back": (StateSource(only_forward(), ends), "clock set back"),
    "forgets a client": (StateSource(lambda time: on(time)[:-1], ends), "for every client|broadcast"),
    "ends too early": (StateSource(on, lambda clients, start, seconds: start + seconds / 2), "at least 100 seconds"),
    "never ends": (StateSource(on, lambda clients, start, seconds: start + seconds * np.inf), "at least 100 seconds"),
    "ends earlier with more work": (
        StateSource(on, lambda clients, start, seconds: start + 400.0 - seconds),
        "more work must not end earlier",
    ),
    "takes time for nothing": (
        StateSource(on, lambda clients, start, seconds: start + seconds + 1.0),
        "no work ends at once",
    ),
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("name", BAD_STATES)
def test_a_state_source_that_breaks_a_rule_is_caught(name):
    source, why = BAD_STATES[name]
    with pytest.raises(AssertionError, match=why):
        testing.check_state_source(source, 8)


# ---- data that break a rule ---------------------------------------------------------------------------------------


def held(shards, holdout=(), sizes=None):
    """Clients that train on these rows, and hold nothing else."""
    none = np.zeros(0, np.int64)
    rows = [np.array(shard, np.int64) for shard in shards]
    counts = np.array([len(r) for r in rows] if sizes is None else sizes)
    return DataSource(
        lambda client, split, round: rows[client] if split == "train" else none,
        lambda round: counts,
        none,
        np.array(holdout, np.int64),
    )


def test_data_that_are_dealt_once_pass():
    testing.check_data_source(held([[0, 2], [1]], [9]), 2, np.arange(3))


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (held([[0, 1], [1, 2]]), "exactly once"),
        (held([[0], [2]]), "exactly once"),
        (held([[0, 1, 2], []]), "something to train on"),
        (held([[0, 1], [2]], [2]), "held by nobody"),
        (held([[0, 1], [2]], sizes=[1, 1]), None),
    ],
    ids=["twice", "not at all", "an empty client", "the central test set", "other sizes"],
)
def test_data_that_break_a_rule_are_caught(source, why):
    with pytest.raises(AssertionError, match=why):
        testing.check_data_source(source, 2, np.arange(3))


def test_a_partition_that_deals_differently_each_time_is_caught():
    made = []

    def restless():
        made.append(None)
        shift = len(made)
        return lambda dataset, rows, clients, rng: (np.arange(len(rows)) + shift) % clients

    with pytest.raises(AssertionError, match="the same seed must deal the same"):
        testing.check_partition(restless, TASK)


def test_a_partition_that_deals_by_the_numbers_of_its_clients_keeps_a_renamed_clients_data():
    testing.check_partition(lambda: lambda dataset, rows, clients, rng: np.arange(len(rows)) % clients, TASK)


# ---- faults that break a rule -------------------------------------------------------------------------------------

GOOD = crashes(rate=0.5)(client_keys(8), 1)
TALKS = lossy(download=0.5, noticed=True)(client_keys(8), 1)


def befalling(**columns):
    def befall(clients, start, ends, tasks):
        return replace(GOOD.draw(clients, start, ends, tasks), **{n: f(clients) for n, f in columns.items()})

    return replace(GOOD, draw=befall)


BAD_FAULTS = {
    "faster": (replace(GOOD, slowdown=lambda clients, start, tasks: np.full(len(clients), 0.5)), "factor of 1 or more"),
    "no stage": (befalling(stage=lambda c: np.full(len(c), 99)), "place in STAGES"),
    "more than all": (befalling(part=lambda c: np.full(len(c), 1.5)), "between 0 and 1"),
    "never comes": (befalling(late=lambda c: np.full(len(c), math.inf)), "arrives in the end"),
    "before it was sent": (befalling(crash=lambda c: np.full(len(c), -1.0)), "before it is sent"),
    "down and there": (replace(GOOD, away=lambda time: np.zeros(8, np.bool_)), "away at that moment"),
    "silent about silence": (replace(GOOD, silences=False), "silences"),
    "looks at others": (befalling(late=lambda c: np.full(len(c), float(len(c)))), "who else"),
    "back too late": (replace(GOOD, back=lambda time: math.inf), "never returns|was back before"),
    "back at once": (replace(GOOD, back=lambda time: time), "returns later"),
    "half said": (replace(GOOD, back=None), "when they are back"),
}


@pytest.mark.parametrize("name", BAD_FAULTS)
def test_a_fault_source_that_breaks_a_rule_is_caught(name):
    source, why = BAD_FAULTS[name]
    with pytest.raises(AssertionError, match=why):
        testing.check_fault_source(source, 8)


def test_whoever_says_what_is_lost_silences_nobody():
    assert not TALKS.silences
    testing.check_fault_source(TALKS, 8)
