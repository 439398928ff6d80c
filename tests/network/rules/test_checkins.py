"""When devices were there: merging, the compact form, the file."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.network.rules.checkins import (
    NO_INTERVALS,
    TICK,
    CheckinWriter,
    Intervals,
    OpenIntervals,
    decode_block,
    encode_block,
    join_intervals,
    read_intervals,
)

rows = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.floats(-1e3, 1e8), st.floats(0, 1e6)), max_size=30)


def columns(*result):
    """Intervals from (client, start, end)."""
    made = list(zip(*result, strict=True)) or [(), (), ()]
    return Intervals(np.array(made[0], np.int64), np.array(made[1], float), np.array(made[2], float))


def listed(result):
    return [(int(c), round(float(s), 3), round(float(e), 3)) for c, s, e in zip(*result, strict=True)]


@given(rows)
def test_a_block_says_what_went_in_a_tick_wider_at_most(result):
    given = columns(*((c, s, s + n) for c, s, n in result))
    back, end = decode_block(encode_block(given))
    assert end == len(encode_block(given))
    ticks = np.floor(given.starts / TICK)
    order = np.lexsort((ticks, given.clients))
    assert np.array_equal(back.clients, given.clients[order])
    slack = 1e-6  # of seconds as floats
    by_start = sorted(zip(given.clients, ticks, given.starts, given.ends, strict=True), key=lambda r: r[:2])
    for start, (_, _, true, _) in zip(back.starts, by_start, strict=True):
        assert true - TICK - slack < start <= true + slack
    # Of equal clients and ticks the ends may change places: they are compared as a set.
    ends = sorted(back.ends - np.ceil(given.ends / TICK)[order] * TICK)
    assert abs(sum(ends)) < 1e-3


def test_bytes_of_an_interval_in_a_fleet():
    rng = np.random.default_rng(5)
    n = 100_000
    starts = rng.uniform(0, 3600, n)
    size = len(encode_block(Intervals(np.arange(n), starts, starts + rng.exponential(900, n))))
    assert size / n <= 6.5


@given(st.binary(max_size=60), st.integers(0, 20))
def test_garbage_is_never_a_block(data, at):
    assert decode_block(data, at) is None


@given(st.data())
def test_no_flipped_bit_passes(data):
    block = bytearray(encode_block(columns((3, 1.0, 2.0), (700, 5.0, 900.0))))
    where = data.draw(st.integers(0, 8 * len(block) - 1))
    block[where // 8] ^= 1 << where % 8
    assert decode_block(bytes(block)) is None


def literal(stays, gap):
    """Stays of one client merged one by one."""
    merged = []
    for came, left in stays:
        if merged and came <= merged[-1][1] + gap:
            merged[-1][1] = max(merged[-1][1], left)
        else:
            merged.append([came, left])
    return [tuple(m) for m in merged]


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(0, 20)), max_size=6), max_size=6))
def test_stays_merge_as_they_would_one_by_one(batches):
    stays, clock, all_of, ended = OpenIntervals(4, gap=5.0), [0] * 4, {c: [] for c in range(4)}, []
    for batch in batches:
        made = []
        for client, wait, length in batch:
            came = clock[client] + wait
            clock[client] = came + length // 2  # so that stays overlap at times
            made.append((client, float(came), float(came + length)))
            all_of[client].append((float(came), float(came + length)))
        ended.append(stays.extend(*columns(*made)))
    result = listed(join_intervals([*ended, stays.take_all()]))
    assert sorted(result) == sorted((c, s, e) for c, of in all_of.items() for s, e in literal(of, 5.0))
    assert listed(stays.take_all()) == []


def test_who_is_away_has_ended_and_long_stays_are_told_in_pieces(tmp_path):
    stays = OpenIntervals(3, gap=10.0)
    assert listed(stays.extend(*columns((0, 0.0, 100.0), (1, 0.0, 5000.0), (2, 0.0, 5.0)))) == []
    first = stays.take_ended(110.0, longest=3600.0)
    assert listed(first) == [(1, 0.0, 5000.0), (2, 0.0, 5.0)]
    stays.extend(*columns((1, 5005.0, 6000.0)))
    writer = CheckinWriter(tmp_path / "c")
    writer.append(first)
    writer.append(stays.take_all())
    writer.close()
    assert listed(read_intervals(tmp_path / "c")) == [(0, 0.0, 100.0), (1, 0.0, 6000.0), (2, 0.0, 5.0)]


def test_a_stay_within_another_does_not_cut_it_short(tmp_path):
    writer = CheckinWriter(tmp_path / "c")
    writer.append(
        columns(
            (5, 0.0, 100.0),
            (5, 10.0, 20.0),
            (5, 50.0, 60.0),
            (2**32 - 1, 0.0, 1e6),
            (5, 100.1, 120.0),
            (5, 130.0, 140.0),
        )
    )
    writer.close()
    assert listed(read_intervals(tmp_path / "c")) == [(5, 0.0, 120.0), (5, 130.0, 140.0), (2**32 - 1, 0.0, 1e6)]


def test_whatever_a_crash_leaves_the_whole_blocks_are_there_and_writing_goes_on(tmp_path):
    path = tmp_path / "c"
    blocks = [encode_block(columns((i, 10.0 * i, 10.0 * i + 5))) for i in range(3)]
    data = b"".join(blocks)
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        whole = sum(cut >= sum(map(len, blocks[: k + 1])) for k in range(3))
        assert len(listed(read_intervals(path))) == whole
        writer = CheckinWriter(path)
        writer.append(columns((9, 0.0, 1.0)))
        writer.sync()
        writer.close()
        assert [c for c, _, _ in listed(read_intervals(path))] == [*range(whole), 9]


def test_a_damaged_block_costs_no_other(tmp_path):
    blocks = [bytearray(encode_block(columns((i, 0.0, 5.0)))) for i in range(3)]
    for broken in range(3):
        data = [bytes(b) for b in blocks]
        data[broken] = data[broken][:-1] + b"?"
        (tmp_path / "c").write_bytes(b"".join(data))
        assert [c for c, _, _ in listed(read_intervals(tmp_path / "c"))] == [i for i in range(3) if i != broken]


def test_a_stay_that_is_told_late_widens_the_interval():
    stays = OpenIntervals(1, gap=5.0)
    stays.extend(*columns((0, 10.0, 20.0)))
    stays.extend(*columns((0, 8.0, 12.0)))
    assert listed(stays.take_all()) == [(0, 8.0, 20.0)]


def test_wrong_files_are_told_in_a_sentence(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        read_intervals(tmp_path / "none")
    (tmp_path / "text").write_text("hello there")
    with pytest.raises(BadInput, match="not a file of check-ins"):
        read_intervals(tmp_path / "text")
    (tmp_path / "empty").write_bytes(b"")
    assert listed(read_intervals(tmp_path / "empty")) == listed(NO_INTERVALS) == []


def test_the_file_is_for_its_owner_only(tmp_path):
    CheckinWriter(tmp_path / "c").close()
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o600
