"""Conformance of the sources that make a world: devices, states, faults, data, energy."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fedfleet.core.parts import Task
from fedfleet.core.quorum import Earliest
from fedfleet.core.records import Bools, Cost, Floats, Ints
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import DataSource, DeviceSource, EnergySource, FaultDraws, FaultSource, StateSource
from fedfleet.core.stages import STAGES, StageSeconds
from fedfleet.testing.conformance import CheckLog, Conformance, fingerprint
from fedfleet.testing.surroundings import Surroundings, turns
from fedfleet.world.partitions import PartitionRecipe, make_shards
from fedfleet.world.states import interval_states

_AGAIN = "asked twice, answered differently; draw by hash_keys(seed, label, keys, tasks), never from a global generator or a clock"


def check_device_source(source: DeviceSource, clients: int, *, quiet: bool = False) -> Conformance:
    """Time is positive, grows with the work, and is a pure function of client, cost, start and task."""
    assert len(source.kinds) == clients, "every client needs a kind"
    log, around = CheckLog("the source of devices"), Surroundings(source)
    everyone, tasks = fixed(np.arange(clients)), fixed(np.arange(100, 100 + clients))
    small, large = (Cost(np.full(clients, s), np.full(clients, b), np.full(clients, b)) for s, b in ((1.0, 1e5), (10.0, 1e6)))
    with around(1):
        first = source.seconds(everyone, small, 0.0, tasks).copy()
    assert first.shape == (clients,) and (first >= 0).all(), "seconds must be one number per client, not negative"
    log.checked("every client has a kind, and its seconds are a number, not negative")
    with around(2):
        assert np.array_equal(first, source.seconds(everyone, small, 0.0, tasks)), _AGAIN
    assert (source.seconds(everyone, large, 0.0, tasks) >= first).all(), "more work must not take less time"
    some = everyone[::2]
    part = source.seconds(some, Cost(small.samples[::2], small.bytes_down[::2], small.bytes_up[::2]), 0.0, tasks[::2])
    assert np.array_equal(part, first[::2]), "a client's time must not depend on who else is asked"
    log.answer(first)
    log.checked("more work takes no less time, and a client's time does not depend on chance, the clock or who else is asked")
    return log.end(quiet)


def fixed(array: np.ndarray) -> np.ndarray:
    """The array, into which nothing can be written any more: a source that does so fails at that line."""
    array.setflags(write=False)
    return array


def check_state_source(source: StateSource, clients: int, *, quiet: bool = False) -> Conformance:
    """Answers are pure functions of time; work ends no earlier than it could, and everyone is reachable at some time."""
    log, around = CheckLog("the source of states"), Surroundings(source)
    everyone = fixed(np.arange(clients))
    times = np.linspace(0.0, 10 * 86400.0, 241)
    with around(1):
        answers = [source.online(float(t)).copy() for t in times]
    for answer in answers:
        assert answer.shape == (clients,), "online must answer for every client"
    for number, group in turns(list(zip(times, answers, strict=True))[::-34]):
        with around(number):
            asked = [(source.online(float(t)), answer) for t, answer in group]
        for one, answer in asked:
            assert np.array_equal(one, answer), (
                "asked again, or with the clock set back, it answers differently: the answer must follow from the time alone"
            )
    log.answer(answers)
    log.checked("who is online follows from the virtual time alone")
    table = None if source.table is None else source.table()
    if table is not None:
        assert len(table) == clients, "its table must have one row for each client"
        by_table = interval_states(table.traces)
        for t, answer in zip(times, answers, strict=True):
            assert np.array_equal(by_table.online(float(t)), answer), f"at {t:,.0f} s its table says otherwise than online"
    work = np.full(clients, 100.0)
    ends = source.finish(everyone, 50.0, work)
    assert (ends >= 150.0 - 1e-9).all() and np.isfinite(ends).all(), (
        "100 seconds of work take at least 100 seconds, and everyone is reachable for so long at some time"
    )
    if source.always:
        assert np.all(answers) and (ends == 150.0).all(), (
            "it says that clients are always reachable, and some are not, or their work is interrupted"
        )
    longer = source.finish(everyone, 50.0, 2 * work)
    assert (longer >= ends).all(), "more work must not end earlier"
    assert (source.finish(everyone, 50.0, 0 * work) == 50.0).all(), "no work ends at once"
    if source.earliest is not None:
        for n in sorted({1, 2, (clients + 1) // 2, clients}):
            for among in (everyone >= 0, everyone % 2 == 0):
                _check_earliest(source, source.earliest, among, n)
        log.checked("the earliest moment is the first at which that many are online")
    log.checked("work ends no earlier than it could, and later if it is more")
    return log.end(quiet)


def _check_earliest(source: StateSource, earliest: Earliest, among: Bools, n: int) -> None:
    """The moment is when `online` says yes for so many, it is the first such, and it is the same from wherever it is searched."""
    start, until = 1000.0, 1000.0 + 10 * 86400.0
    moment = earliest(among, n, start, until)
    assert moment >= start, f"{n} clients are there at {moment}, which is before {start}"
    if np.count_nonzero(among) < n:
        assert moment == math.inf, f"{n} clients are there at {moment}, of {np.count_nonzero(among)} that may come"
    times = np.linspace(start, min(moment, until), 150, endpoint=moment == math.inf)
    missed = [float(t) for t in times if np.count_nonzero(source.online(float(t)) & among) >= n and t < min(moment, until)]
    assert not missed, f"{n} clients are there at {missed[0]} already, and not first at {moment}"
    if moment < math.inf:
        count = np.count_nonzero(source.online(moment) & among)
        assert count >= n, f"at {moment} there should be {n} clients, and there are {count}"
        for later in (start + 0.4 * (moment - start), moment):
            assert earliest(among, n, later, until) == moment, "looked for later, the same moment must be found"
        assert earliest(among, n, start, moment) == math.inf, "a moment must come before `until`"


def check_energy_source(source: EnergySource, clients: int, *, quiet: bool = False) -> Conformance:
    """No work draws nothing, more work no less; charges are finite, one per task, and follow from client, work and start alone."""
    log, around = CheckLog("the energy source"), Surroundings(source)
    everyone, starts = fixed(np.arange(clients)), fixed(np.linspace(0.0, 3 * 86400.0, clients))
    work: StageSeconds = {stage: fixed(1.0 + ((everyone + 3 * place) % 7).astype(np.float64)) for place, stage in enumerate(STAGES)}
    with around(1):
        first = {name: values.copy() for name, values in source.charges(everyone, work, starts).items()}
    with around(2):
        again = source.charges(everyone, work, starts)
    some = source.charges(everyone[::2], {stage: took[::2] for stage, took in work.items()}, starts[::2])
    more = source.charges(everyone, {stage: 2.0 * took for stage, took in work.items()}, starts)
    for name, values in first.items():
        assert name not in STAGES, f"{name!r} is a stage: a source charges what stages cost"
        assert values.shape == (clients,) and np.isfinite(values).all(), f"{name} must be one finite number per task"
        assert (values >= 0).all(), f"{name} must not be negative: work charges no battery"
        assert np.array_equal(values, again[name]), _AGAIN
        assert np.array_equal(values[::2], some[name]), "a client's charge must not depend on who else is asked"
        assert (more[name] >= values).all(), "more work must not draw less"
    for idle in ({}, {stage: np.zeros(clients) for stage in STAGES}):
        charges = source.charges(everyone, idle, starts)
        assert not any(values.any() for values in charges.values()), "no work must draw nothing"
    for stage, took in work.items():
        charges = source.charges(everyone, {stage: took}, starts)
        assert all((charges[n] <= first[n]).all() for n in charges), f"{stage} alone must not draw more than everything"
    log.answer(first)
    log.checked("charges are finite, no work draws nothing, more work no less")
    log.checked("a client's charge does not depend on chance, the clock or who else is asked")
    return log.end(quiet)


def check_fault_source(source: FaultSource, clients: int, *, quiet: bool = False) -> Conformance:
    """What goes wrong is a pure function of client, task and time; who crashes is away, and what is silent says so."""
    log, around = CheckLog("the fault source"), Surroundings(source)
    everyone, tasks = fixed(np.arange(clients)), fixed(np.arange(500, 500 + clients))
    for start in (0.0, 1000.0, 7.5 * 86400.0):
        ends: Floats = fixed(np.asarray(start + 10.0 + 3600.0 * np.arange(clients), np.float64))
        with around(1):
            slower = source.slowdown(everyone, start, tasks).copy()
        assert slower.shape == (clients,) and (slower >= 1).all() and np.isfinite(slower).all(), (
            "a slow-down is a finite factor of 1 or more for each task"
        )
        with around(1):
            faults = source.draw(everyone, start, ends, tasks)
            seen = fingerprint(faults)
        log.answer(seen)
        _check_fault_draws(source, faults, start, ends)
        with around(2):
            again, part = (source.draw(everyone, start, ends, tasks), source.draw(everyone[::2], start, ends[::2], tasks[::2]))
            assert np.array_equal(slower, source.slowdown(everyone, start, tasks)), f"slowdown: {_AGAIN}"
        for name in ("stage", "part", "crash", "noticed", "late", "again"):
            column = getattr(faults, name)
            assert np.array_equal(column, getattr(again, name)), f"{name}: {_AGAIN}"
            assert np.array_equal(column[::2], getattr(part, name)), f"{name} must not depend on who else is asked"
        assert np.array_equal(slower[::2], source.slowdown(everyone[::2], start, tasks[::2])), (
            "a slow-down must not depend on who else is asked"
        )
        assert fingerprint(faults) == seen, "a draw must not change later: give new arrays each time"
    log.checked("what goes wrong follows from client, task and time, not from chance, the clock or who else is asked")
    _check_away(source, clients)
    log.checked("who crashes is away until it is back, and what is silent says so")
    return log.end(quiet)


def _check_fault_draws(source: FaultSource, faults: FaultDraws, start: float, ends: Floats) -> None:
    assert ((faults.stage >= -1) & (faults.stage < len(STAGES))).all(), "a stage is a place in STAGES, or -1"
    assert ((faults.part >= 0) & (faults.part <= 1)).all(), "the part of a stage lies between 0 and 1"
    assert (faults.late >= 0).all() and np.isfinite(faults.late).all(), "a report that is late arrives in the end"
    assert (faults.again >= 0).all() and not np.isnan(faults.crash).any(), "nothing happens before it can"
    down = faults.crash < ends
    assert (faults.crash >= start).all(), "a task cannot be struck before it is sent"
    silent = down | ((faults.stage >= 0) & ~faults.noticed)
    assert source.silences or not silent.any(), "tasks are lost without a word, and the source does not say that it silences"
    for client in np.flatnonzero(down).tolist() if source.away is not None else ():
        assert source.away is not None and source.away(float(faults.crash[client]))[client], (
            "who goes down must be away at that moment"
        )


def _check_away(source: FaultSource, clients: int) -> None:
    assert (source.away is None) == (source.back is None), "who says that clients are away must say when they are back"
    if source.away is None or source.back is None:
        return
    times = np.linspace(0.0, 20 * 86400.0 + 1234.5, 401).tolist()  # at all times of the hour and the day
    answers = [source.away(t).copy() for t in times]
    assert all(answer.shape == (clients,) for answer in answers), "away must answer for every client"
    for t, answer in list(zip(times, answers, strict=True))[::-3]:
        assert np.array_equal(source.away(t), answer), "asked again, or with the clock set back, it answers differently"
        back = source.back(t)
        assert back > t, "who is away returns later, and not now"
        if back < math.inf:
            assert (source.away(t + 0.99 * (back - t)) >= answer).all(), f"somebody was back before {back}"
        else:
            assert not answer.any(), "somebody is away and never returns"


def check_data_source(source: DataSource, clients: int, rows: Ints, *, quiet: bool = False) -> Conformance:
    """Every row is held exactly once, by one client in one split; sizes are those of the training shards."""
    log, around = CheckLog("the source of data"), Surroundings(source)
    held = [source.shard(c, split, 0) for c in range(clients) for split in ("train", "valid", "test")]
    assert np.array_equal(np.sort(np.concatenate(held)), np.sort(rows)), "every row must be held exactly once"
    assert np.array_equal([len(source.shard(c, "train", 0)) for c in range(clients)], source.sizes(0))
    assert (source.sizes(0) > 0).all(), "every client must have something to train on"
    assert not np.isin(source.holdout, np.concatenate(held)).any(), "the central test set must be held by nobody"
    with around(1):
        again = [source.shard(c, split, 0) for c in range(clients) for split in ("train", "valid", "test")]
    assert fingerprint(again) == fingerprint(held), "asked again, a client must hold the same rows in the same order"
    log.answer(held)
    log.checked("every row is held exactly once, by one client in one split, and every client has something to train on")
    return log.end(quiet)


def check_partition(make: Callable[[], PartitionRecipe], task: Task, *, clients: int = 12, quiet: bool = False) -> Conformance:
    """A partition deals every row once, repeats itself, and follows its clients when they are renamed."""
    keys = client_keys(clients)
    rows = task.client_rows()
    log, around = CheckLog("the partition"), Surroundings(make)
    with around(1):
        source = make_shards(make(), task, keys, 3)
    log.answer(check_data_source(source, clients, rows, quiet=True).digest)
    log.checked("every row is held exactly once, by one client in one split")
    with around(2):
        again = make_shards(make(), task, keys, 3)
    renamed = make_shards(make(), task, keys[::-1].copy(), 3)
    for c in range(clients):
        assert np.array_equal(source.shard(c, "train", 0), again.shard(c, "train", 0)), (
            "the same seed must deal the same: draw from stream(seed, label) or by the clients' keys"
        )
        there = np.sort(np.concatenate([renamed.shard(clients - 1 - c, s, 0) for s in ("train", "valid", "test")]))
        here = np.sort(np.concatenate([source.shard(c, s, 0) for s in ("train", "valid", "test")]))
        assert np.array_equal(there, here), "a renamed client must keep its data"
    log.checked("the same seed deals the same, with other global generators and clocks, and renamed clients keep their data")
    return log.end(quiet)
