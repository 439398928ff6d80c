"""Synchronous rounds walked through without a coordinator: who will be in which model, several times faster than a dry run.

For policies that declare their round rules, without late reports, leases or faults, and for selectors without a memory. What a
round asks, what it waits for and when it fails is the policy's own rule; choices and trips have the addresses of the run, so that
the answer equals the run's own to the last bit, which a law in the tests holds for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from fedfleet.core.parts import Draw, Selector
from fedfleet.core.records import Cost, Floats, Ints, Roster, Stop
from fedfleet.core.round_rules import RoundRules
from fedfleet.core.sources import World
from fedfleet.measure.class_clock import Participation


def walk_rounds(
    rules: RoundRules, stop: Stop, choose: Selector, world: World, cost: Callable[[Ints, int], Cost], *, seed: int
) -> Participation | None:
    """Walk through the rounds of a run; `cost(clients, round)` is what their tasks cost.

    None: the selector gave a client work or a time of its own, or picked too few of the clients in a round that waits, which this
    model of rounds does not know; or nobody says when enough clients are in reach.
    """
    now, tasks, rounds = 0.0, 0, 0
    times, members, asked, arrived = list[float](), list[Ints](), list[Ints](), list[Ints]()
    failed: Counter[str] = Counter()
    horizon, min_clients = stop.virtual_seconds, max(rules.min_clients, 1)
    earliest, anyone = world.states.earliest, choose.may_ask(len(world.keys))
    if rules.wait_if_few and earliest is None:
        return None
    while now < horizon and rounds < stop.rounds:
        if (stop.commits is not None and len(times) >= stop.commits) or (stop.updates is not None and tasks >= stop.updates):
            break
        start = now + rules.t_break
        if rules.wait_if_few and earliest is not None and start < horizon:
            start = earliest(anyone, rules.waits_for(), start, horizon)
        if start >= horizon:
            now = horizon
            break
        online = np.flatnonzero(world.states.online(start))
        roster = Roster(online, world.keys[online], world.data.sizes(rounds)[online])
        assignments = choose.pick({}, roster, min(rules.cohort, len(online)), Draw(seed, rounds, tasks))
        if not assignments.usual:
            return None
        chosen = assignments.clients
        if rules.wait_if_few and len(chosen) < min_clients:
            return None
        if len(chosen):
            asked.append(chosen)
        if len(chosen) < min_clients:
            now, tasks, rounds = start, tasks + len(chosen), rounds + 1
            failed[f"fewer than {min_clients} clients could be selected"] += 1
            continue
        ends = _end_times(world, chosen, cost(chosen, rounds), start, tasks)
        now, in_time = _close_round(rules, ends, start)
        if now >= horizon:
            arrived.append(chosen[ends < horizon])
            now = horizon
            break
        tasks, rounds = tasks + len(chosen), rounds + 1
        arrived.append(chosen[in_time])
        if len(in_time) >= rules.need(rules.cohort, len(chosen)):
            times.append(now)
            members.append(chosen[np.sort(in_time)])
        else:
            failed[f"{len(in_time)} of at least {rules.need(rules.cohort, len(chosen))} reports arrived"] += 1
    clients = len(world.keys)
    folded = _concatenate(members)
    return Participation(
        times=np.array(times), commit=np.repeat(np.arange(len(members)), [len(m) for m in members]), clients=folded,
        share=np.ones(len(folded)), staleness=np.zeros(len(folded), np.int64),
        asked=np.bincount(_concatenate(asked), minlength=clients), arrived=np.bincount(_concatenate(arrived), minlength=clients),
        failed=dict(failed.most_common()), rounds=rounds, seconds=now,
    )  # fmt: skip


def _end_times(world: World, clients: Ints, cost: Cost, start: float, first: int) -> Floats:
    """When each report comes; infinite where a device cannot do the work."""
    seconds = world.devices.seconds(clients, cost, start, np.arange(first, first + len(clients)))
    able = np.isfinite(seconds)
    if able.all():
        return world.states.finish(clients, start, seconds)
    ends = np.full(len(clients), np.inf)
    if able.any():
        ends[able] = world.states.finish(clients[able], start, seconds[able])
    return ends


def _close_round(rules: RoundRules, ends: Floats, start: float) -> tuple[float, Ints]:
    """When a round closes, and the places of those who are in it by then.

    It closes with the report that is enough, when no task runs any more, or at its deadline, whichever is first.
    """
    order = np.argsort(ends, kind="stable")
    able = int(np.isfinite(ends).sum())
    wanted = min(rules.ready(len(ends)), able)
    enough_at = float(ends[order[wanted - 1]]) if wanted else start
    deadline = start + rules.time_limit
    if enough_at < deadline:
        return enough_at, order[:wanted]
    return deadline, order[: int((ends <= deadline).sum())]


def _concatenate(parts: list[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *parts])
