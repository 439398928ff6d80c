"""What work took is told in units that mean something."""

import time

import numpy as np

from fedfleet.network.device.resource_usage import mark, peak_bytes, usage_since
from fedfleet.network.device.server_calls import Connection


def test_what_was_used_since_a_mark():
    line = Connection("127.0.0.1:1")
    line.bytes_down, line.bytes_up = 10, 20
    start = mark(line)
    until = time.process_time() + 0.05
    while time.process_time() < until:
        np.zeros(1000).sum()
    line.bytes_down, line.bytes_up = 15, 27
    used = usage_since(start, line, samples=3, nbytes=100, downloaded=1000)
    assert (used.bytes_down, used.bytes_up, used.samples) == (1005, 107, 3)
    assert used.wall_seconds >= 0.04 and used.cpu_seconds >= 0.04
    line.close()


def test_the_peak_is_in_bytes():
    assert 10e6 < peak_bytes() < 1e12
    held = np.ones(30_000_000 // 8)
    assert peak_bytes() >= 30e6
    del held
