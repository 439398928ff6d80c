"""Asking: candidates are seen, perhaps probed, and the selector's pick becomes a wave of tasks."""

from __future__ import annotations

import math

import numpy as np

from fedfleet.core.commands import Probe, Send
from fedfleet.core.cost import cost_of, scale_cost
from fedfleet.core.errors import RunFailed, error_context
from fedfleet.core.events import CandidatesSeen, Probed, TasksSent
from fedfleet.core.parts import Draw, Plan
from fedfleet.core.records import Assignments, Floats, Ints, Roster, Wave
from fedfleet.engine.book import send_wave, with_book
from fedfleet.engine.decisions import consult
from fedfleet.engine.state import Phase, Reaction, RunState, change, endings


def handle_candidates(plan: Plan, state: RunState, fact: CandidatesSeen) -> Reaction:
    """Look before picking if the selector wants that; else pick."""
    if not state.book.asking or state.probe is not None:
        raise RunFailed("internal error: unexpected candidates were reported; please report this")
    state = with_book(change(state, at_least=0), now=fact.time)
    if state.phase is Phase.ENDING:
        return Reaction(with_book(state, asking=False))  # asked for before the end of the run; no task is sent any more
    roster, choose = fact.roster, plan.choose
    if state.others:
        roster = roster.only(~np.isin(roster.clients, clients_asked_this_round(state)))
    if choose.probe is None:
        return _pick(plan, state, roster)
    wanted = state.book.wanted - state.book.selected
    with error_context(f"selector {choose.name!r}, choosing which of {len(roster.clients)} candidates to probe,"):
        clients, stat = choose.probe(state.selector, roster, wanted, _draw(plan, state))
    if not len(clients):  # the column is there all the same, so that picking needs no special case
        return _pick(plan, state, _with_column(roster, stat, np.full(len(roster.clients), np.nan)))
    if places(roster, clients) is None:
        raise RunFailed(f"selector {choose.name!r} probes clients that are not on the roster")
    probe = Probe(clients, stat, state.server, fact.time, state.book.round, choose.probe_seconds)
    return Reaction(change(state, roster=roster, probe=probe), (), (probe,))


def handle_probe_answer(plan: Plan, state: RunState, fact: Probed) -> Reaction:
    """The answers become a column of the roster, and the selector picks.

    Rounds may close while a probe is out. The pick has the address of the probe nonetheless: drawn anew, it would be among others.
    """
    roster, probe = state.roster, state.probe
    if roster is None or probe is None:
        raise RunFailed("internal error: a probe was answered that was never sent; please report this")
    state = with_book(change(state, roster=None, probe=None), now=fact.time)
    if state.phase is Phase.ENDING:
        return Reaction(with_book(state, asking=False))
    at = places(roster, fact.clients)
    if at is None:
        raise RunFailed("internal error: a probe was answered by clients that are not on the roster; please report this")
    column = np.full(len(roster.clients), np.nan)
    column[at] = fact.values
    return _pick(plan, state, _with_column(roster, fact.stat, column), _draw(plan, state, probe.round))


def _pick(plan: Plan, state: RunState, roster: Roster, draw: Draw | None = None) -> Reaction:
    book = state.book
    draw = _draw(plan, state) if draw is None else draw
    wanted = book.wanted - book.selected
    with error_context(f"selector {plan.choose.name!r}, picking {wanted} of {len(roster.clients)} candidates,"):
        assignments = plan.choose.pick(state.selector, roster, min(wanted, len(roster.clients)), draw)
    state = with_book(change(state, others=False), asking=False, answered=True, asks=book.asks + 1)
    if not len(assignments.clients):
        return consult(plan, state)
    at = _check_pick(plan, roster, assignments, wanted)
    with error_context(f"algorithm {plan.algorithm.name!r}, computing what {len(at)} tasks cost,"):
        cost = scale_cost(cost_of(plan.algorithm, state.server, assignments, roster.samples[at]), plan.byte_scale, plan.charge)
    wave = Wave(state.next_task, book.round, book.version, book.now, assignments, roster.keys[at], cost, state.server)
    sent = TasksSent(
        book.now, book.round, book.version, wave.first, assignments.clients, assignments.steps, assignments.share, cost.samples,
        cost.bytes_down, assignments.settings, assignments.due,
    )  # fmt: skip
    after = consult(plan, send_wave(state, wave))
    return Reaction(after.state, (sent, *after.outcomes), (Send(wave), *after.commands))


def _check_pick(plan: Plan, roster: Roster, assignments: Assignments, wanted: int) -> Ints:
    """Where the picked clients stand on the roster; whatever cannot be sent names the selector."""
    n, name = len(assignments.clients), plan.choose.name
    at = places(roster, assignments.clients)
    if at is None or n > wanted or len(np.unique(assignments.clients)) != n:
        raise RunFailed(
            f"selector {name!r} picked {n} clients where {wanted} were wanted: too many, "
            "the same client twice, or a client that is not on the roster"
        )
    columns = {"steps": assignments.steps, "share": assignments.share, **assignments.settings}
    short = [column for column, values in columns.items() if len(values) != n]
    if short:
        raise RunFailed(f"selector {name!r} picked {n} clients, but its column {short[0]!r} has another length")
    if (assignments.steps < 0).any() or not ((assignments.share > 0) & (assignments.share <= 1)).all():
        raise RunFailed(f"selector {name!r} asks for impossible work: give steps of 0 or more, and a share above 0 and at most 1")
    if assignments.due is not None and not 0 < assignments.due < math.inf:
        raise RunFailed(
            f"selector {name!r} says that reports are due {assignments.due} seconds after sending; give a finite number above 0"
        )
    return at


def places(roster: Roster, clients: Ints) -> Ints | None:
    """Where these clients stand on the roster; None if one does not."""
    if not len(roster.clients):
        return None
    at = np.minimum(np.searchsorted(roster.clients, clients), len(roster.clients) - 1)
    return at if np.array_equal(roster.clients[at], clients) else None


def _draw(plan: Plan, state: RunState, round: int | None = None) -> Draw:
    return Draw(plan.seed, state.book.round if round is None else round, state.next_task)


def clients_asked_this_round(state: RunState) -> Ints:
    """Every task of this round either runs or has ended since the round opened."""
    tasks = [*state.running.items(), *((e.task, e.wave) for e in endings(state.ended))]
    clients = [w.assignments.clients[t - w.first] for t, w in tasks if w.round == state.book.round]
    return np.array(clients, np.int64)


def _with_column(roster: Roster, name: str, column: Floats) -> Roster:
    return Roster(roster.clients, roster.keys, roster.samples, {**roster.stats, name: column})
