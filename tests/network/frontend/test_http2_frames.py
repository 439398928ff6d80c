"""Frames that are too long are seen as they begin, however the bytes are cut."""

import pytest

from fedfleet.network.frontend.http2_frames import FrameSizes
from fedfleet.network.frontend.http_exchange import MAX_HEAD_BYTES

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, CONTINUATION, END_HEADERS = 0, 1, 9, 4
LONGEST = 1 << 14


def frame(kind, nbytes, flags=0):
    return nbytes.to_bytes(3, "big") + bytes([kind, flags]) + (1).to_bytes(4, "big") + bytes(nbytes)


def fit(data, step=None):
    """Do all bytes fit? Looked at in pieces of so many."""
    sizes, step = FrameSizes(), step or len(data)
    return all(sizes.fit(data[at : at + step]) for at in range(0, len(data), step))


@pytest.mark.parametrize("step", [None, 1, 7, 1000])
def test_frames_of_the_greatest_length_fit_and_longer_ones_do_not(step):
    good = PREFACE + frame(HEADERS, 20, END_HEADERS) + frame(DATA, LONGEST) + frame(DATA, 0) + frame(DATA, 5)
    assert fit(good, step)
    assert not fit(good + frame(DATA, LONGEST + 1), step)
    assert not fit(good + frame(HEADERS, LONGEST + 1, END_HEADERS), step)


def test_a_frame_is_refused_by_its_head_alone():
    assert not fit(PREFACE + frame(DATA, LONGEST + 1)[:9])
    assert fit(PREFACE + frame(DATA, LONGEST + 1)[:8])


def test_a_head_in_many_frames_may_not_be_longer_than_in_one():
    parts = MAX_HEAD_BYTES // LONGEST
    block = frame(HEADERS, LONGEST) + frame(CONTINUATION, LONGEST) * (parts - 1)
    assert fit(PREFACE + block + frame(CONTINUATION, 0, END_HEADERS))
    assert not fit(PREFACE + block + frame(CONTINUATION, 1, END_HEADERS))
    # Each head counts by itself.
    assert fit(PREFACE + frame(HEADERS, LONGEST, END_HEADERS) * (parts + 2))
