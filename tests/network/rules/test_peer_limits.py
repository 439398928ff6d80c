"""What one peer may ask of the server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.network.rules.peer_limits import Bucket, Limits, PeerLimiter, Rate, level, take

pytestmark = pytest.mark.slow

some = st.floats(0, 10)


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 3)), max_size=50), st.floats(0.1, 10), st.floats(1, 10))
def test_no_more_is_taken_than_burst_and_rate_allow_over_any_time(calls, per_second, burst):
    rate, bucket, now, taken = Rate(per_second, burst), Bucket(burst, 0.0), 0.0, 0.0
    for wait, cost in calls:
        now += wait
        bucket, seconds = take(bucket, rate, now, cost)
        if seconds == 0.0:
            taken += cost
        else:
            assert level(bucket, rate, now) < cost
            if cost <= burst:
                assert level(bucket, rate, now + seconds) == pytest.approx(cost)
        assert 0 <= bucket.left <= burst
    assert taken <= burst + per_second * now + 1e-6


def test_a_clock_that_goes_back_gives_nothing():
    rate = Rate(1.0, 5.0)
    bucket, _ = take(Bucket(5.0, 100.0), rate, 100.0, 5.0)
    assert level(bucket, rate, 50.0) == 0.0
    bucket, _ = take(bucket, rate, 50.0)
    assert level(bucket, rate, 101.0) == 1.0


def test_calls_are_limited_by_peer():
    door = PeerLimiter(Limits(calls=Rate(1.0, 3.0)))
    assert [door.admit_call("a", 0.0) is None for _ in range(4)] == [True, True, True, False]
    assert door.admit_call("b", 0.0) is None
    refusal = door.admit_call("a", 0.0)
    assert refusal.seconds == 1.0
    assert "more than 1 calls a second" in refusal.reason
    assert door.admit_call("a", 1.0) is None


def test_strikes_shut_a_peer_out_until_they_have_cooled():
    door = PeerLimiter(Limits(strikes=Rate(0.1, 2.0)))
    assert [door.strike("a", 0.0) for _ in range(3)] == [False, True, True]
    assert door.admit_call("a", 0.0).seconds == pytest.approx(10.0)
    assert door.admit_call("b", 0.0) is None
    assert door.admit_call("a", 9.9) is not None
    assert door.admit_call("a", 10.0) is None
    assert door.strike("a", 10.0)


def test_what_is_open_is_counted_until_it_is_closed():
    door = PeerLimiter(Limits(streams=2, peer_bytes=100, all_bytes=150))
    assert door.open("a", 0.0, streams=1, nbytes=90) is None
    assert "more than 100 bytes" in door.open("a", 0.0, streams=1, nbytes=20).reason
    assert "too many bytes" in door.open("b", 0.0, streams=1, nbytes=70).reason
    assert door.open("a", 0.0, streams=1) is None
    assert "more than 2 streams" in door.open("a", 0.0, streams=1).reason
    door.close("a", streams=1, nbytes=90)
    assert door.bytes_in_flight == 0
    assert door.open("b", 0.0, streams=1, nbytes=70) is None


def test_a_refused_opening_takes_nothing():
    door = PeerLimiter(Limits(streams=2, peer_bytes=100))
    assert door.open("a", 0.0, streams=1, nbytes=101) is not None
    assert door.bytes_in_flight == 0
    assert door.open("a", 0.0, streams=2, nbytes=100) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 60)), max_size=60))
def test_bytes_in_flight_are_what_was_opened_and_not_closed(steps):
    door, held = PeerLimiter(Limits(peer_bytes=100, all_bytes=150)), []
    for peer, opening, nbytes in steps:
        if opening and door.open(peer, 0.0, nbytes=nbytes) is None:
            held.append((peer, nbytes))
        elif held and not opening:
            back, size = held.pop()
            door.close(back, nbytes=size)
        assert door.bytes_in_flight == sum(n for _, n in held) <= 150
        for one in "abc":
            assert sum(n for p, n in held if p == one) <= 100


def test_memory_is_bounded_and_who_holds_something_is_not_forgotten():
    door = PeerLimiter(Limits(peers=10, streams=1))
    assert door.open("kept", 0.0, streams=1) is None
    for i in range(1000):
        assert door.admit_call(i, 0.0) is None
    assert len(door) == 10
    assert door.open("kept", 0.0, streams=1) is not None
    full = PeerLimiter(Limits(peers=3))
    for i in range(3):
        full.open(i, 0.0, streams=1)
    assert "too many peers" in full.admit_call("new", 0.0).reason
    assert full.strike("new", 0.0)
    full.close(1, streams=1)
    assert full.admit_call("new", 0.0) is None


def test_who_is_shut_out_is_not_forgotten_by_a_crowd():
    door = PeerLimiter(Limits(peers=10, strikes=Rate(0.001, 1.0)))
    assert door.strike("bad", 0.0)
    for i in range(100):
        door.admit_call(i, 0.0)
    assert door.admit_call("bad", 0.0) is not None


def test_the_one_that_was_silent_for_longest_is_forgotten():
    door = PeerLimiter(Limits(peers=2, calls=Rate(0.0, 1.0)))
    for peer in ("a", "b"):
        door.admit_call(peer, 0.0)
    assert door.admit_call("a", 0.0) is not None
    assert door.admit_call("c", 0.0) is None  # b was silent for longer
    assert door.admit_call("a", 0.0) is not None
    assert door.admit_call("b", 0.0) is None


def test_closing_what_was_never_open_gives_nothing():
    door = PeerLimiter(Limits(all_bytes=10))
    door.open("a", 0.0, streams=1, nbytes=6)
    door.close("b", nbytes=5)
    door.close("a", nbytes=100)
    assert door.bytes_in_flight == 0
    assert door.open("a", 0.0, nbytes=11) is not None


def test_peers_of_which_something_is_to_be_known_are_remembered_among_a_fleet_that_is_forgotten():
    door = PeerLimiter(Limits(calls=Rate(20.0, 100.0), strikes=Rate(0.001, 2.0), streams=1))
    door.open("holds", 0.0, streams=1)
    door.strike("struck", 0.0)
    for _ in range(100):
        door.admit_call("busy", 0.0)
    for i in range(2000):
        assert door.admit_call(i, 1.0 + i * 0.005) is None
        if i == 600:
            assert door.admit_call("busy", 4.0, cost=90.0) is not None  # 80 of its calls are there again
    assert len(door) <= 2 + 2 * 10  # who called once has a full bucket again after a twentieth of a second
    assert door.open("holds", 11.0, streams=1) is not None
    door.strike("struck", 11.0)
    assert door.admit_call("struck", 11.0) is not None
