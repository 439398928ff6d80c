import os
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.network.stress.meters import Latency, Usage, UsageSampler, cpu_seconds, merge, process_tree, pss_bytes

SECONDS = st.lists(st.floats(2e-5, 50.0), min_size=1, max_size=60)


@given(SECONDS, st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_quantiles_are_right_within_a_bin(seconds, share):
    seen = Latency()
    for s in seconds:
        seen.add(s)
    exact = float(np.quantile(seconds, share, method="inverted_cdf"))
    assert seen.quantile(share) == pytest.approx(exact, rel=0.05)


@given(st.lists(SECONDS, min_size=1, max_size=4))
def test_processes_add_up(parts):
    whole, each = Latency(), []
    for part in parts:
        own = Latency()
        for s in part:
            whole.add(s)
            own.add(s)
        each.append(own.to_json())
    assert merge(each).bins == whole.bins


def test_nothing_has_no_quantile():
    assert Latency().quantile(0.5) == 0.0
    assert merge([]).count() == 0


GROWS = "x = bytearray(b'1') * 40_000_000; print('grown', flush=True); import sys; sys.stdin.read()"


def child(code):
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_memory_that_a_process_holds_is_counted():
    with child("print('small', flush=True); import sys; sys.stdin.read()") as small, child(GROWS) as large:
        small.stdout.readline()
        large.stdout.readline()
        assert 38e6 < pss_bytes(large.pid) - pss_bytes(small.pid) < 60e6
        for each in (small, large):
            each.communicate()


def test_a_process_that_is_gone_has_nothing():
    with child("") as gone:
        gone.communicate()
        assert gone.wait() == 0
    assert (pss_bytes(gone.pid), cpu_seconds(gone.pid)) == (0, 0.0)


def test_work_costs_processor_time():
    before, until = cpu_seconds(os.getpid()), time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert 0.02 < cpu_seconds(os.getpid()) - before < 1.0


def test_a_family_is_a_process_and_its_children():
    with child("import sys; sys.stdin.read()") as one:
        assert {os.getpid(), one.pid} <= set(process_tree(os.getpid()))
        assert process_tree(one.pid) == [one.pid]
        one.communicate()


def test_a_watch_sees_the_peak():
    with child(GROWS.replace("40_000_000", "160_000_000")) as large, UsageSampler(os.getpid(), every=0.02) as watch:
        large.stdout.readline()
        enough = watch.usage.samples + 2  # the one under way may have begun before
        while watch.usage.samples < enough:
            time.sleep(0.01)
        large.communicate()
    seen = watch.close()
    assert seen.peak_mb > seen.base_mb + 80  # this process may give some memory back meanwhile
    assert seen.samples > 2


def test_processor_time_counts_from_the_first_look_and_outlives_its_process():
    seen, gone = Usage(), 1_000_000_000
    seen.sample([gone])
    seen.cpu[gone] = 2.5
    seen.sample([gone])
    assert seen.cpu_seconds == 2.5
    own = Usage()
    own.sample([os.getpid()])
    assert own.cpu_seconds == 0.0
