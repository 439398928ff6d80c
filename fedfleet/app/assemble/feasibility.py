"""What a run can never do, found before it starts: a warning where it can run all the same, a refusal where it cannot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedfleet.app.assemble.edge_times import slow_turns
from fedfleet.app.assemble.setup import Setup, metric_warnings, score_of
from fedfleet.app.assemble.trip_times import hopeless_trips, late_reports_advice
from fedfleet.app.terminal.text import span
from fedfleet.core.cost import cost_of
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Evaluated, Event, ReportRejected
from fedfleet.core.parts import Plan, Policy
from fedfleet.core.records import Book, whole_work
from fedfleet.core.rng import attackers
from fedfleet.core.sources import World
from fedfleet.core.trees import tree_nbytes
from fedfleet.measure.tasks import task_table

_DAYS = 30.0  # how far ahead one looks for clients that are there together
_MEGABYTE = 2.0**20
_WAKINGS = 1000  # of a policy that is met with silence, before it is taken to wait for ever
_CLOSE = 0.05  # an accuracy that is no more above chance
_KINDS_SHOWN = 3  # kinds of device that a sentence names
_CLIENTS_SHOWN = 1 << 12  # clients whose kinds are looked at for that


def feasibility_warnings(setup: Setup) -> list[str]:
    """One sentence for each thing that this run asks for and cannot get, with the cure."""
    plan, world = setup.plan, setup.world
    return [
        *world.states.warnings, *plan.pace.doubts, *hopeless_trips(plan, world), *never_together(plan, world),
        *slow_turns(plan, world), *setup.warnings, *setup.task.warnings,
    ]  # fmt: skip


def run_warnings(setup: Setup, events: Sequence[Event]) -> list[str]:
    """The warnings of a finished run that its journal alone does not give: what would help, and which figures mislead."""
    return [*advice(setup, events), *metric_warnings(setup), *setup.task.warnings]


def advice(setup: Setup, events: Sequence[Event]) -> list[str]:
    """What would help a run whose rounds failed or whose reports were refused, by what is known of its fleet and its spec. Folders
    of runs that are older than an advice do not have it."""
    return [*late_reports_advice(setup.plan, setup.world, events), *_attack_advice(setup, events), *_few_clients(setup, events)]


def _few_clients(setup: Setup, events: Sequence[Event]) -> list[str]:
    """That a model at chance has learnt from few clients."""
    scores = [event for event in events if isinstance(event, Evaluated) and event.total]
    chance = score_of(setup.task).chance
    if not scores or not scores[-1].version or chance is None or scores[-1].correct > (chance + _CLOSE) * scores[-1].total:
        return []
    tasks = task_table(events)
    seen = len(np.unique(tasks.clients[tasks.folded_into > 0]))
    if seen * 2 > setup.plan.clients:
        return []
    return [
        f"the model has learnt from only {seen} of {setup.plan.clients} clients: train for longer (stop.rounds), or "
        'let slower clients report with a longer wait, such as pace.use = "readiness"'
    ]


def _attack_advice(setup: Setup, events: Sequence[Event]) -> list[str]:
    """That reports were refused in a run with attackers, of whom the refusal itself does not know."""
    attack: Mapping[str, Any] | None = setup.spec.algorithm.get("attack")
    refused = {event.client for event in events if isinstance(event, ReportRejected)}
    if attack is None or not refused:
        return []
    keys, share = setup.world.keys, float(attack.get("share", 0.0))
    hostile = int(attackers(setup.plan.seed, keys[sorted(refused)], share, len(keys)).sum())
    return [
        f"this run has the attack algorithm.attack = {attack['use']!r}, and {hostile} of the {len(refused)} clients whose reports "
        "were refused are attackers: before you lower algorithm.lr, choose a robust algorithm.fold, or weaken or remove the "
        "attack, which can also spoil the model so far that updates of honest clients become too large"
    ]


def never_together(plan: Plan, world: World) -> list[str]:
    """Whether as many clients as a round wants, or needs, are never reachable at once."""
    earliest, pace = world.states.earliest, plan.pace
    if earliest is None:
        return []
    members, until = plan.choose.members, min(plan.stop.virtual_seconds, _DAYS * 86400.0)
    everyone = plan.choose.may_ask(plan.clients)

    def meet(n: int) -> bool:
        return earliest(everyone, n, 0.0, until) < math.inf

    if meet(pace.cohort):
        return []
    most, too_many = 0, pace.cohort
    while too_many - most > 1:
        middle = (most + too_many) // 2
        most, too_many = (middle, too_many) if meet(middle) else (most, middle)
    where = (
        f"in the first {span(until)} of virtual time at most {most} clients "
        f"{'' if members is None else 'that [choose] allows '}are reachable at the same time"
    )
    change = "world.states" if members is None else "world.states or the clients that [choose] names"
    if most < pace.least:
        return [
            f"no round can succeed: {where}, and it needs {pace.least}; lower pace.min_clients or pace.min_share, or change "
            f"{change}"
        ]
    fewer = "rounds will be smaller than" if pace.key == "cohort" else "fewer clients will train at a time than"
    return [f"{fewer} pace.{pace.key} = {pace.cohort}: {where}; lower pace.{pace.key}, or change {change}"]


def check_silence(plan: Plan, world: World) -> None:
    """Refuse a policy that waits for ever where a task can be lost without a word: such a run would sleep to its horizon."""
    if world.faults is not None and world.faults.silences and waits_for_ever(plan.pace, plan.clients):
        raise BadInput(
            f"pace: {plan.pace.name!r} waits until every task ends, but world.faults can lose a task without notice, so "
            'the run could wait for ever; give tasks up with pace.lease, use a policy that gives them up, such as "deadline" with '
            'max_staleness = 0, let a round that finds too few clients fail with pace.if_few = "fail", or let the server notice '
            "lost tasks with world.faults.noticed = true"
        )


def waits_for_ever(pace: Policy, clients: int) -> bool:
    """Does a policy go on waiting, whatever time passes, when no client answers?

    Its decisions show it: it gets the clients that it asks for, as long as there are idle ones, no client reports,
    and it is woken whenever it wants to be. It does not wait for ever if it gives tasks up, or if rounds go by nonetheless.
    """
    book, missing = Book(kept=pace.initial), 0
    for _ in range(_WAKINGS):
        decision = pace.decide(book)
        if decision.keep is not None:
            book = book._replace(kept=decision.keep)
        if book.running and (decision.drop == 0 or decision.drop_before is not None):
            return False
        if decision.abandon or decision.commit:
            book = Book(book.now, book.round + 1, opened_at=book.now, sent_at=book.sent_at, running=book.running, kept=book.kept)
            continue
        if decision.ask:
            missing = 0 if clients - book.running >= decision.at_least else decision.at_least
            book = book._replace(wanted=book.selected + decision.ask, asking=True)
        if book.asking and not missing:
            book = _book_after_send(book, clients)
        elif decision.wake_at is None or decision.wake_at == math.inf:
            return True
        else:
            book = book._replace(now=decision.wake_at, answered=False)
    return book.round == 0


def _book_after_send(book: Book, clients: int) -> Book:
    """The book after as many as there are were sent a task."""
    sent = min(book.wanted - book.selected, clients - book.running)
    first = min(book.first_sent_at, book.now) if sent else book.first_sent_at
    return book._replace(
        asking=False, answered=True, asks=book.asks + 1, selected=book.selected + sent, running=book.running + sent,
        own_running=book.own_running + sent, sent_at=book.now if sent else book.sent_at, first_sent_at=first,
    )  # fmt: skip


def memory_warnings(plan: Plan, world: World, frozen: float = 0.0) -> list[str]:
    """Devices that cannot hold what they are offered, with so many bytes of `frozen` weights: refused if none can, else said.

    Unknown memory is taken to be enough.
    """
    if world.devices.memory_mb is None:
        return []
    size = plan.byte_scale * (tree_nbytes(plan.params) + frozen) / _MEGABYTE
    memory = world.devices.memory_mb(np.arange(plan.clients))
    small = memory < size
    if small.any():  # those may be offered less than the whole model
        some = np.flatnonzero(small)
        offered = cost_of(plan.algorithm, plan.algorithm.init(plan.params), whole_work(some), np.ones(len(some), np.int64))
        small[some] = memory[some] < plan.byte_scale * (offered.bytes_down + frozen) / _MEGABYTE
    if not small.any():
        return []
    if small.all():
        raise BadInput(
            f"the model takes {size:,.4g} MB, but the largest memory of any device is {np.max(memory):,.4g} MB; lower "
            "world.model_bytes, choose a smaller model, or choose other devices in world.devices"
        )
    kinds = list(dict.fromkeys(str(world.devices.kinds[c]) for c in np.flatnonzero(~small)[:_CLIENTS_SHOWN].tolist()))
    kind_names = ", ".join(kinds[:_KINDS_SHOWN]) + (" and others" if len(kinds) > _KINDS_SHOWN else "")
    return [
        f"the model takes {size:,.4g} MB, more than the memory of {int(small.sum())} of {plan.clients} devices, which train it "
        f"here all the same; it fits {int((~small).sum())} ({kind_names}): choose among those in world.devices, "
        'or give the others a slice of it with algorithm.use = "heterofl"'
    ]
