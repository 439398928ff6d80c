"""How much one peer may ask of the server: calls a second, strikes, open streams, bytes in flight. Memory is bounded.

A peer is whatever the caller names: a client that was enrolled, or an address where nobody is known yet. Strikes are a bucket
too: so many at once, and one more for each `cooling` that has passed; a peer without any left is shut out until then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

BUSY_SECONDS = 0.2


class Rate(NamedTuple):
    """So many a second in the long run, and so many at once."""

    per_second: float
    burst: float


class Bucket(NamedTuple):
    """What is left of a rate, at a moment."""

    left: float
    at: float


def level(bucket: Bucket, rate: Rate, now: float) -> float:
    """What is left now. A clock that went back refills nothing."""
    return min(rate.burst, bucket.left + rate.per_second * max(now - bucket.at, 0.0))


def take(bucket: Bucket, rate: Rate, now: float, cost: float = 1.0) -> tuple[Bucket, float]:
    """The bucket afterwards, and 0 if it held enough, else after how many seconds it would; then nothing is taken.

    >>> take(Bucket(1.0, 0.0), Rate(2.0, 5.0), 0.0)
    (Bucket(left=0.0, at=0.0), 0.0)
    >>> take(Bucket(0.0, 0.0), Rate(2.0, 5.0), 0.0)
    (Bucket(left=0.0, at=0.0), 0.5)
    """
    left, at = level(bucket, rate, now), max(now, bucket.at)
    if left >= cost:
        return Bucket(left - cost, at), 0.0
    return Bucket(left, at), (cost - left) / rate.per_second if rate.per_second > 0 else float("inf")


_CALLS = Rate(20.0, 100.0)
_STRIKES = Rate(1 / 60.0, 10.0)  # ten, and one more a minute
_NOTHING: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Limits:
    """What one peer may have, and all together."""

    calls: Rate = _CALLS
    strikes: Rate = _STRIKES
    streams: int = 4  # open at once
    peer_bytes: int = 256 << 20  # in flight
    all_bytes: int = 1 << 30
    peers: int = 50_000  # that are remembered, at 0.4 kB, until their buckets are full again


class Refusal(NamedTuple):
    """Not now: why, and after how many seconds it may be tried again."""

    reason: str
    seconds: float


@dataclass(slots=True)
class _Peer:
    """What is known of one peer; what it never did costs nothing."""

    calls: Bucket
    strikes: Bucket | None = None
    in_use: dict[str, int] | None = None  # streams and bytes that are open


class PeerLimiter:
    """The peers of one process, least recently seen first. Those that hold something open are never forgotten."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._peers: OrderedDict[Hashable, _Peer] = OrderedDict()
        self.bytes_in_flight = 0

    def __len__(self) -> int:
        return len(self._peers)

    def admit_call(self, peer: Hashable, now: float, cost: float = 1.0) -> Refusal | None:
        """Whether a peer may call now; it counts if so."""
        record = self._peer_record(peer, now)
        if record is None:
            return Refusal("too many peers at once", BUSY_SECONDS)
        lockout = _lockout(record, self._limits, now)
        if lockout is not None:
            return lockout
        record.calls, wait = take(record.calls, self._limits.calls, now, cost)
        return Refusal(f"more than {self._limits.calls.per_second:g} calls a second", wait) if wait else None

    def strike(self, peer: Hashable, now: float) -> bool:
        """A peer sent what no honest device sends; whether it is shut out now."""
        record = self._peer_record(peer, now)
        if record is None:
            return True
        rule = self._limits.strikes
        record.strikes = take(record.strikes or Bucket(rule.burst, now), rule, now)[0]
        return _lockout(record, self._limits, now) is not None

    def restore_strikes(self, peer: Hashable, left: float, now: float) -> None:
        """A peer that was struck in an earlier life of this process has so many strikes left."""
        record = self._peer_record(peer, now)
        if record is not None:
            record.strikes = Bucket(left, now)

    def open(self, peer: Hashable, now: float, *, streams: int = 0, nbytes: int = 0) -> Refusal | None:
        """Whether a peer may hold so much more open at once; it is counted until `close` is called with the same."""
        record = self._peer_record(peer, now)
        if record is None:
            return Refusal("too many peers at once", BUSY_SECONDS)
        limits = self._limits
        requested = (("streams", streams, limits.streams), ("bytes", nbytes, limits.peer_bytes))
        in_use = record.in_use or _NOTHING
        for name, more, limit in requested:
            if more and in_use.get(name, 0) + more > limit:
                return Refusal(f"more than {limit} {name} of one peer at once", BUSY_SECONDS)
        if nbytes and self.bytes_in_flight + nbytes > limits.all_bytes:
            return Refusal("too many bytes on their way at once", BUSY_SECONDS)
        record.in_use = in_use | {name: in_use.get(name, 0) + more for name, more, _ in requested if more} or None
        self.bytes_in_flight += nbytes
        return None

    def close(self, peer: Hashable, *, streams: int = 0, nbytes: int = 0) -> None:
        """A peer let go of what it had opened."""
        record = self._peers.get(peer)
        if record is None or record.in_use is None:
            return
        self.bytes_in_flight -= min(nbytes, record.in_use.get("bytes", 0))
        released = {"streams": streams, "bytes": nbytes}
        remaining = {name: count - released[name] for name, count in record.in_use.items()}
        record.in_use = {name: count for name, count in remaining.items() if count > 0} or None

    def _peer_record(self, peer: Hashable, now: float) -> _Peer | None:
        """What is known of a peer, who is the most recent now; None: there is no room for another."""
        record = self._peers.get(peer)
        if record is not None:
            self._peers.move_to_end(peer)
            return record
        self._forget_idle(now)
        if len(self._peers) >= self._limits.peers and not self._evict_one(now):
            return None
        record = _Peer(Bucket(self._limits.calls.burst, now))
        self._peers[peer] = record
        return record

    def _forget_idle(self, now: float) -> None:
        """Forget the two peers that were silent for longest, if nothing is to be known of them: their buckets are full again."""
        limits = self._limits
        for _ in range(min(2, len(self._peers))):
            oldest, record = next(iter(self._peers.items()))
            if level(record.calls, limits.calls, now) < limits.calls.burst:
                return  # the others called later
            if record.in_use or (record.strikes and level(record.strikes, limits.strikes, now) < limits.strikes.burst):
                self._peers.move_to_end(oldest)
            else:
                del self._peers[oldest]

    def _evict_one(self, now: float) -> bool:
        """Forget the peer that was silent for longest; those that hold something or are shut out go to the end first."""
        for _ in range(min(16, len(self._peers))):  # a bound on the time that a stranger can cost
            oldest, record = self._peers.popitem(last=False)
            if not record.in_use and _lockout(record, self._limits, now) is None:
                return True
            self._peers[oldest] = record
        return False


def _lockout(record: _Peer, limits: Limits, now: float) -> Refusal | None:
    if record.strikes is None or level(record.strikes, limits.strikes, now) >= 1.0:
        return None
    wait = take(record.strikes, limits.strikes, now)[1]
    return Refusal("too many calls of this device were wrong", wait)
