"""Admits devices: each gets a place (a client of the run) and a generation, from which its secret follows.

The rules, in the order in which they are asked:
1. Whoever shows the secret of the device that holds a place is that device, and keeps place and generation.
2. Whoever repeats an attempt whose answer was lost (same random bytes, same token) gets the answer again.
3. A token must be good (`tokens.token_refusal`); without one, enrolment must be open, and not to a device that was put out. One
   use is counted per place given. A secret of another run is worth nothing, and does no harm.
4. A token that names a client gives that place, also if it is taken: the newcomer takes it over, and the secret of the earlier
   device is no longer valid. So a lost device is replaced, and nobody else can push a device out.
5. Any other token gives a place that is free: the one asked for, else the first that nobody ever had, else one that was revoked.
   Two devices never hold one place: the later one is refused.

A revoked place has the next generation at once, so that the old secret holds nowhere. Everything is on the disk before it is
answered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.errors import RunFailed, printable
from fedfleet.network.protocol.fleet_pb2 import EnrolRequest
from fedfleet.network.security.declared_samples import DeclaredSamples, lower_median
from fedfleet.network.security.enrolment_request import (
    Admission,
    Refusal,
    Terms,
    attempt_of,
    declared_values,
    evidence_refusal,
    protocol_refusal,
    unfit_reason,
)
from fedfleet.network.security.enrolment_store import end_enrolment, open_store, revoke_client, transaction
from fedfleet.network.security.secrets import RunKey, check_secret
from fedfleet.network.security.tokens import Token, token_of, token_refusal, use_token

_NEW_ROW = """INSERT INTO enrolments
(client, generation, token, attempt, samples, test_samples, memory_bytes, data, peer, enrolled, evidence)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""


class Registry:
    """Who holds which place; a resource, to be closed. One caller at a time; `now` is in Unix seconds.

    `generations[client]` is the generation whose secret holds, whether somebody has it yet or not; `enrolled[client]` says so.
    """

    def __init__(self, path: Path, key: RunKey, terms: Terms) -> None:
        self._path, self._key, self.terms = path, key, terms
        self._db = open_store(path)
        self._next_task: int | None = None
        self._changed_places: set[int] = set()  # places whose generation changed since somebody asked
        self._load()

    def _load(self) -> None:
        n, self._next_task = self.terms.clients, None
        self.generations: NDArray[np.uint32] = np.ones(n, np.uint32)
        self.enrolled: NDArray[np.bool_] = np.zeros(n, np.bool_)
        self._tests = np.zeros(n, np.int64)
        self.declared = DeclaredSamples(self._db, n)
        self._unused = 0  # below this, everybody was enrolled once
        rows = self._db.execute(
            "SELECT client, generation, samples, test_samples, data, revoked FROM enrolments ORDER BY client, generation"
        )
        for client, generation, samples, tests, data, revoked in rows:
            if client >= n:
                raise RunFailed(f"{self._path} has a device for client {client}, but the run has only {n} clients")
            self._set_holder(client, generation, samples, tests, data)
            if revoked is not None:
                self._end_holder(client, generation)
        self._seen_version = self._version()

    def close(self) -> None:
        """Close the store."""
        self._db.close()

    def enrol(self, request: EnrolRequest, now: float, peer: str, next_task: int = 0) -> Admission | Refusal:
        """Admit one device, or say why not."""
        return self.enrol_all([(request, peer)], now, next_task)[0]

    def enrol_all(self, requests: Sequence[tuple[EnrolRequest, str]], now: float, next_task: int = 0) -> list[Admission | Refusal]:
        """Admit devices in this order, in one transaction, on the disk before the answer. If that fails, no device is admitted.

        `next_task`: the first task that is not given yet; what a device declares holds from that task on.
        """
        self._next_task = next_task
        refusals = [self._refusal_reason(request, now) for request, _ in requests]
        try:
            with transaction(self._db, self._path):
                self._load_revocations()
                return [
                    Refusal(why) if why is not None else self._admit(request, now, peer)
                    for why, (request, peer) in zip(refusals, requests, strict=True)
                ]
        except BaseException:
            self._load()  # what was written down here is not on the disk
            raise

    def holds(self, client: int, secret: bytes) -> bool:
        """Whether this secret is that of the device which holds the place."""
        return (
            client < self.terms.clients
            and bool(self.enrolled[client])
            and check_secret(self._key, client, int(self.generations[client]), secret)
        )

    def max_tests(self, clients: NDArray[np.integer], spec: NDArray[np.integer]) -> NDArray[np.int64]:
        """On how many samples these clients may judge a model: what they declared of their own data, or what the spec deals."""
        return np.where(self.declared.own[clients], self._tests[clients], spec).astype(np.int64)

    def median_tests(self) -> int | None:
        """The median of the test samples that enrolled devices declare of their own data; None if none has any."""
        return lower_median(self._tests[self.enrolled & self.declared.own & (self._tests > 0)])

    def has_own_data(self, client: int) -> bool:
        """Whether the device of this client trains on data of its own."""
        return bool(self.declared.own[client])

    def revoke(self, client: int, now: float) -> None:
        """Remove a device from the run: its secret is no longer valid."""
        revoke_client(self._db, client, now)
        self._load_revocations()

    def take_changes(self) -> list[tuple[int, int]]:
        """Places whose generation changed since the last call, here or by the command line, with the generation that holds now."""
        if self._version() != self._seen_version:
            self._load_revocations()
        changes = [(client, int(self.generations[client])) for client in sorted(self._changed_places)]
        self._changed_places.clear()
        return changes

    def raised_generations(self) -> list[tuple[int, int]]:
        """All places whose generation is not 1, as a process that starts has to know them."""
        return [(int(client), int(self.generations[client])) for client in np.flatnonzero(self.generations != 1)]

    def _refusal_reason(self, request: EnrolRequest, now: float) -> str | None:
        """What is wrong with a request, whatever places there are. Strangers learn nothing of the server's limits and hooks."""
        terms, why = self.terms, protocol_refusal(request, self.terms)
        unfit = unfit_reason(request, terms)
        if why is not None or (unfit is None and terms.evidence is None):
            return why
        if not (request.HasField("client") and self.holds(request.client, request.secret)):
            why = self._check_invitation(request, now)[0]
        return why or unfit or (None if terms.evidence is None else evidence_refusal(terms.evidence, request))

    def _check_invitation(self, request: EnrolRequest, now: float) -> tuple[str | None, Token | None]:
        if request.token:
            token = token_of(self._db, request.token)
            return (None if self._earlier_enrolment(request) else token_refusal(token, now)), token
        if not self.terms.open:
            return ("this server admits devices with a token only; ask its operator for one, and give it with --token", None)
        return None, None

    def _admit(self, request: EnrolRequest, now: float, peer: str) -> Admission | Refusal:
        requested = request.client if request.HasField("client") else None
        if requested is not None and self.holds(requested, request.secret):
            self._declare_again(requested, request)
            return Admission(requested, int(self.generations[requested]), False)
        if (earlier := self._earlier_enrolment(request)) is not None:
            return self._repeat_answer(*earlier)
        if not request.token and requested is not None and self._held_before(requested, request.secret):
            return Refusal("the device was removed from the run, so its secret is no longer valid; enrol it again with a token")
        why, token = self._check_invitation(request, now)
        if why is not None:
            return Refusal(why)
        place = self._place(requested, token)
        if isinstance(place, Refusal):
            stale = " (its --store remembers another run: give an empty --store to start again)" if request.secret else ""
            return Refusal(place.sentence + stale)
        return self._assign_place(place, request, token, now, peer)

    def _held_before(self, client: int, secret: bytes) -> bool:
        """Whether a device held this place with this secret and was put out; any other secret is worth nothing."""
        earlier = range(1, int(self.generations[client])) if client < self.terms.clients else ()
        return any(check_secret(self._key, client, generation, secret) for generation in earlier)

    def _place(self, requested: int | None, token: Token | None) -> int | Refusal:
        """Which place a newcomer gets (rules 4 and 5)."""
        token_client = None if token is None else token.client
        client = requested if token_client is None else token_client
        if token_client is not None and requested is not None and token_client != requested:
            return Refusal(
                f"the token is for client {token_client}, but the device wants to be client {requested}; leave out one of the two"
            )
        if client is None:
            return self._free_place()
        if client >= self.terms.clients:
            return Refusal(f"there is no client {client}: the run has clients 0 to {self.terms.clients - 1}")
        if token_client is None and self.enrolled[client]:
            return Refusal(f"client {client} is another device; ask for a token that names this client, or leave out the number")
        return client

    def _free_place(self) -> int | Refusal:
        occupied, n = self.enrolled, self.terms.clients
        while self._unused < n and (occupied[self._unused] or self.generations[self._unused] > 1):
            self._unused += 1
        if self._unused < n:
            return self._unused
        revoked = np.flatnonzero(~occupied)
        return int(revoked[0]) if len(revoked) else Refusal(f"all {n} places of the run are taken")

    def _assign_place(self, client: int, request: EnrolRequest, token: Token | None, now: float, peer: str) -> Admission:
        if self.enrolled[client]:
            end_enrolment(self._db, client, now)
            self._end_holder(client, int(self.generations[client]))
        generation = int(self.generations[client])
        row = (
            client,
            generation,
            None if token is None else token.id,
            attempt_of(request),
            *declared_values(request),
            printable(peer),
            now,
        )
        self._db.execute(_NEW_ROW, (*row, hashlib.sha256(request.evidence).digest() if request.evidence else None))
        if token is not None:
            use_token(self._db, token)
        self._set_holder(client, generation, request.samples, request.test_samples, request.data)
        return Admission(client, generation, True)

    def _earlier_enrolment(self, request: EnrolRequest) -> tuple[int, int] | None:
        mark = attempt_of(request)
        if mark is None:
            return None
        return self._db.execute("SELECT client, generation FROM enrolments WHERE attempt = ?", (mark,)).fetchone()

    def _repeat_answer(self, client: int, generation: int) -> Admission | Refusal:
        if self.enrolled[client] and self.generations[client] == generation:
            return Admission(client, generation, False)
        return Refusal("the device was enrolled with this token and removed from the run since; enrol it again with another token")

    def _declare_again(self, client: int, request: EnrolRequest) -> None:
        """A device that comes back may have other data than before."""
        values = (*declared_values(request), client, int(self.generations[client]))
        condition = "(samples, test_samples, memory_bytes, data) IS NOT (?1, ?2, ?3, ?4)"
        self._db.execute(
            "UPDATE enrolments SET samples = ?1, test_samples = ?2, memory_bytes = ?3, data = ?4 "
            f"WHERE client = ?5 AND generation = ?6 AND {condition}",
            values,
        )
        self._set_holder(client, int(self.generations[client]), request.samples, request.test_samples, request.data)

    def _set_holder(self, client: int, generation: int, samples: int, tests: int, data: str) -> None:
        known = self._next_task if self.enrolled[client] or generation > 1 else None
        self.generations[client], self.enrolled[client] = generation, True
        self._tests[client] = tests
        self.declared.declare(client, samples, own=data != "", next_task=known)

    def _end_holder(self, client: int, generation: int) -> None:
        self.generations[client], self.enrolled[client] = generation + 1, False
        self._changed_places.add(client)

    def _load_revocations(self) -> None:
        self._seen_version = self._version()
        for client, generation in self._db.execute("SELECT client, generation FROM enrolments WHERE revoked IS NOT NULL"):
            if generation >= self.generations[client]:
                self._end_holder(client, generation)

    def _version(self) -> int:
        return self._db.execute("PRAGMA data_version").fetchone()[0]
