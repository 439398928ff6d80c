"""Conformance of selectors and policies."""

from __future__ import annotations

import numpy as np

from fedfleet.core.parts import Draw, Policy, Selector
from fedfleet.core.records import DROPPED, FOLDED, LOST, Book, Ended, Roster
from fedfleet.core.rng import client_keys, stream


def check_selector(selector: Selector, *, clients: int = 50, rounds: int = 12) -> None:
    """A selector picks distinct clients from the roster, never more than asked, the same for the same address."""
    keys = client_keys(clients)
    state = selector.initial
    for round_ in range(rounds):
        there = np.flatnonzero(stream(3, "there", round_).random(clients) < 0.6)
        stats = (
            {name: stream(4, name, round_).random(len(there)) for name in ("loss", "seconds")} if selector.probe else {}
        )
        roster = Roster(there, keys[there], np.full(len(there), 20), stats)
        for n in (0, 1, 7, len(there)):
            asked = selector.pick(state, roster, n, Draw(1, round_))
            again = selector.pick(state, roster, n, Draw(1, round_))
            assert len(asked.clients) <= n, f"asked for {n}, picked {len(asked.clients)}"
            assert len(set(asked.clients.tolist())) == len(asked.clients), "a client was picked twice"
            assert np.isin(asked.clients, there).all(), "a client was picked that is not on the roster"
            assert np.array_equal(asked.clients, again.clients), (
                "the same state, roster and address must give the same pick"
            )
            assert (asked.steps >= 0).all() and ((asked.share > 0) & (asked.share <= 1)).all(), "work must be possible"
        if selector.probe is not None:
            probed, _ = selector.probe(state, roster, 7, Draw(1, round_))
            assert np.isin(probed, there).all(), "a client was probed that is not on the roster"
        if selector.learn is not None:
            state = selector.learn(state, _ended(there, round_), 100.0 * round_)
            assert all(isinstance(v, np.ndarray) for v in state.values()), "a selector's state must be named arrays"
    empty = Roster(np.zeros(0, np.int64), keys[:0], np.zeros(0, np.int64))
    assert len(selector.pick(state, empty, 0, Draw(1, 0)).clients) == 0, "from nobody, nobody can be picked"


def _ended(clients, round_: int) -> Ended:
    n = len(clients)
    fate = np.resize(np.array([FOLDED, DROPPED, LOST], np.int8), n)
    loss = np.where(fate == FOLDED, stream(6, "loss", round_).random(n), np.nan)
    return Ended(np.arange(n), clients, np.full(n, 9.0), fate, {"loss": loss, "samples": np.full(n, 20.0)})


def check_policy(policy: Policy, *, steps: int = 400) -> None:
    """A policy asks, commits or abandons within bounded time, never asks in reply to candidates, never wakes in the past."""
    assert policy.cohort >= 1, "a policy must say how many it wants at once"
    rng = stream(8, "policy")
    book, closed = Book(), 0
    for _ in range(steps):
        decision = policy.decide(book)
        assert decision == policy.decide(book), "the same book must give the same decision"
        assert not (decision.commit and decision.abandon), "a round cannot be committed and abandoned at once"
        if decision.wake_at is not None:
            assert decision.wake_at > book.now, f"wakes at {decision.wake_at}, which is not after {book.now}"
        if decision.commit:
            assert book.arrived > 0, "nothing has arrived, so nothing can be committed"
        if decision.commit or decision.abandon:
            closed += 1
            still = 0 if decision.drop == 0 else book.running
            book = Book(book.now, book.round + 1, book.version + bool(decision.commit), book.now, running=still)
        elif decision.ask:
            assert not book.answered, "asks for candidates in reply to candidates"
            came = int(rng.integers(0, decision.ask + 1))
            book = _answered(book, decision.ask, came)
        else:
            book = _time_passes(book, decision.wake_at, bool(rng.random() < 0.9))
    assert closed >= 3, f"only {closed} rounds ended in {steps} consultations: does it wait for ever?"


def _answered(book: Book, ask: int, came: int) -> Book:
    return Book(
        book.now, book.round, book.version, book.opened_at, book.now, book.selected + ask, book.selected + came,
        book.arrived, book.lost, book.running + came, False, True,
    )  # fmt: skip


def _time_passes(book: Book, wake_at: float | None, arrives: bool) -> Book:
    """Either one running task ends, or the clock jumps to the wake-up."""
    ends = book.running > 0
    now = book.now + 5.0 if ends else wake_at if wake_at is not None else book.now + 5.0
    return Book(
        now, book.round, book.version, book.opened_at, book.sent_at, book.wanted, book.selected,
        book.arrived + (ends and arrives), book.lost + (ends and not arrives), book.running - ends,
    )  # fmt: skip
