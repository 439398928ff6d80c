"""Device sources: Eq. (3) by hand, and files that are refused by row."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.core.records import Cost
from fedfleet.core.rng import client_keys
from fedfleet.world.devices import device_file, homogeneous, lognormals, median_devices, spread

KEYS = client_keys(300)


def cost(n, samples=10.0, down=1e6, up=1e6):
    return Cost(np.full(n, samples), np.full(n, down), np.full(n, up))


def seconds(source, clients, price, first=0):
    return source.seconds(np.array(clients), price, 0.0, np.arange(first, first + len(clients)))


def test_homogeneous_by_hand():
    source = homogeneous(mbps=8.0, up_mbps=4.0, seconds_per_sample=0.1)(KEYS, 0)
    # 8 Mbit down at 8 Mbit/s, up at 4, three passes over ten samples: 1 + 2 + 3 seconds.
    assert np.allclose(seconds(source, [0, 7], cost(2)), 6.0, rtol=1e-15)
    assert len(source.kinds) == 300
    assert set(source.kinds) == {"a"}


def batches(n, count):
    """So many training batches, and nothing else."""
    return Cost(np.zeros(n), np.zeros(n), np.zeros(n), np.full(n, float(count)))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.floats(0.0, 4.0), st.floats(1.001, 1e4), st.integers(0, 5))
def test_capped_spreads_never_exceed_their_ratio(sigma, most, seed):
    link = spread(link=sigma, most_link=most)(KEYS, seed)
    work = spread(compute=sigma, most_compute=most, link=0.0)(KEYS, seed)
    moved = seconds(link, np.arange(300), cost(300, samples=0.0))
    worked = seconds(work, np.arange(300), cost(300, down=0.0, up=0.0))
    assert moved.max() / moved.min() <= most * (1 + 1e-9) and worked.max() / worked.min() <= most * (1 + 1e-9)


def test_whoever_lies_within_the_cap_keeps_its_speed_and_the_others_fill_it():
    free, capped = (lognormals(1, "link", KEYS, 1.0, most) for most in (None, 13.0))
    inside = np.abs(np.log(free)) <= 0.5 * np.log(13.0)
    assert 0.5 < inside.mean() < 1.0 and np.array_equal(free[inside], capped[inside])
    assert len(np.unique(capped[~inside])) == (~inside).sum(), "nobody sits at the edge"
    assert capped.max() / capped.min() > 10.0
    narrow = np.log(lognormals(1, "link", KEYS, 3.0, 1.02))
    assert abs(narrow.mean()) < 0.001 and narrow.std() == pytest.approx(np.log(1.02) / np.sqrt(12), rel=0.1)


def test_batches_take_their_own_time():
    even = homogeneous(seconds_per_batch=0.25)(KEYS, 0)
    assert seconds(even, [0, 5], batches(2, 4)).tolist() == [1.0, 1.0]
    assert seconds(homogeneous()(KEYS, 0), [0], batches(1, 4)).tolist() == [0.0]


def test_a_device_that_is_slow_with_samples_is_as_slow_with_batches():
    source, everyone = spread(seconds_per_sample=0.1, seconds_per_batch=0.3)(KEYS, 0), np.arange(300)
    per_batch = seconds(source, everyone, batches(300, 1))
    per_sample = seconds(source, everyone, cost(300, samples=1.0, down=0.0, up=0.0))
    assert np.allclose(per_batch, per_sample, rtol=1e-12), "0.3 a batch is three passes over one sample of 0.1"
    assert per_batch.std() > 0.1


def test_without_its_own_speed_the_upload_has_the_downloads():
    source = homogeneous(mbps=8.0, seconds_per_sample=0.0)(KEYS, 0)
    assert np.allclose(seconds(source, [0], cost(1)), 2.0)


def test_spread_has_the_median_and_the_spread_that_were_asked_for():
    keys = client_keys(20_000)
    source = spread(mbps=8.0, seconds_per_sample=0.05, link=1.0, compute=0.5)(keys, 0)
    everyone = np.arange(len(keys))
    transfer = np.log(seconds(source, everyone, cost(len(keys), samples=0.0, up=0.0)))
    training = np.log(seconds(source, everyone, cost(len(keys), down=0.0, up=0.0)))
    assert abs(np.median(transfer)) < 0.03
    assert abs(transfer.std() - 1.0) < 0.02
    assert abs(np.median(training) - np.log(1.5)) < 0.03
    assert abs(training.std() - 0.5) < 0.02
    assert abs(np.corrcoef(transfer, training)[0, 1]) < 0.03


def test_kinds_of_spread_are_thirds_by_link_speed():
    source = spread()(KEYS, 0)
    taken = seconds(source, np.arange(300), cost(300, samples=0.0))
    kinds = np.array(source.kinds)
    assert [int((kinds == k).sum()) for k in ("slow", "middle", "fast")] == [100, 100, 100]
    assert taken[kinds == "slow"].min() > taken[kinds == "middle"].max()
    assert taken[kinds == "middle"].min() > taken[kinds == "fast"].max()


def test_without_jitter_trips_are_alike_and_with_it_they_are_addressed():
    clients = [3, 3, 4]
    steady, shaky = spread()(KEYS, 0), spread(jitter=0.3)(KEYS, 0)
    assert np.array_equal(seconds(steady, clients, cost(3)), seconds(steady, clients, cost(3), first=9))
    first = seconds(shaky, clients, cost(3))
    assert first[0] != first[1]
    assert np.array_equal(first, seconds(shaky, clients, cost(3)))


def test_a_device_belongs_to_the_key_and_not_to_the_index():
    order = np.random.default_rng(0).permutation(300)
    before = seconds(spread()(KEYS, 0), np.arange(300), cost(300))
    after = seconds(spread()(KEYS[order], 0), np.arange(300), cost(300))
    assert np.array_equal(before[order], after)


def a_device(**changes):
    usual = {"id": "a", "down_kbps": [8000, 4000], "up_kbps": [1000, 2000, 4000], "seconds_per_sample": 0.1}
    return {**usual, **changes}


def written(tmp_path, *rows, form="fedfleet/devices@1"):
    path = tmp_path / "devices.json"
    path.write_text(json.dumps({"format": form, "devices": list(rows)}))
    return str(path)


def test_a_file_draws_only_listed_speeds_and_all_of_them(tmp_path):
    source = device_file(written(tmp_path, a_device()))(KEYS[:1], 0)
    one = np.zeros(500, np.int64)
    down = seconds(source, one, cost(500, samples=0.0, up=0.0))
    up = seconds(source, one, cost(500, samples=0.0, down=0.0))
    assert np.unique(np.round(down, 9)).tolist() == [1.0, 2.0]
    assert np.unique(np.round(up, 9)).tolist() == [2.0, 4.0, 8.0]
    assert 0.4 < np.mean(down < 1.5) < 0.6
    # Down and up are drawn independently.
    assert abs(np.corrcoef(down, up)[0, 1]) < 0.15


def test_absent_uploads_are_drawn_from_the_downloads(tmp_path):
    path = written(tmp_path, a_device(up_kbps=None), a_device(id="b"))
    source = device_file(path)(KEYS[:2], 0)
    clients = np.arange(400) % 2
    up = np.round(seconds(source, clients, cost(400, samples=0.0, down=0.0)), 9)
    down = seconds(source, clients, cost(400, samples=0.0, up=0.0))
    assert abs(np.corrcoef(down[clients == 0], up[clients == 0])[0, 1]) < 0.2  # independently
    assert np.unique(up[clients == 0]).tolist() == [1.0, 2.0]
    assert np.unique(up[clients == 1]).tolist() == [2.0, 4.0, 8.0]


def test_training_and_latency_come_from_the_row(tmp_path):
    source = device_file(written(tmp_path, a_device(latency_ms=[100, 300])))(KEYS[:1], 0)
    taken = seconds(source, np.zeros(300, np.int64), cost(300, down=0.0, up=0.0))
    assert taken.min() >= 3.0 + 0.1
    assert taken.max() <= 3.0 + 0.3
    assert taken.std() > 0.03


def test_a_trip_is_addressed_by_its_task(tmp_path):
    source = device_file(written(tmp_path, a_device()))(KEYS[:1], 0)
    one = np.zeros(50, np.int64)
    assert np.array_equal(seconds(source, one, cost(50))[20:], seconds(source, one[20:], cost(30), first=20))


def test_more_rows_than_clients_are_fine_and_fewer_are_not(tmp_path):
    path = written(tmp_path, a_device(id="x"), a_device(id="y"), a_device(id="z"))
    assert list(device_file(path)(KEYS[:2], 0).kinds) == ["x", "y"]
    with pytest.raises(BadInput, match="3 devices for 4 clients"):
        device_file(path)(KEYS[:4], 0)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"down_kbps": []}, "device b: down_kbps"),
        ({"down_kbps": 4000}, "device b: down_kbps"),
        ({"down_kbps": [4000, 0]}, "device b: down_kbps: 0 is not positive"),
        ({"down_kbps": [4000, True]}, "device b: down_kbps"),
        ({"down_kbps": ["fast"]}, "device b: down_kbps"),
        ({"down_kbps": [float("nan")]}, "device b: down_kbps: nan"),
        ({"up_kbps": [-1]}, "device b: up_kbps"),
        ({"up_kbps": []}, "device b: up_kbps"),
        ({"seconds_per_sample": None}, "device b: seconds_per_sample"),
        ({"seconds_per_sample": -0.1}, "device b: seconds_per_sample"),
        ({"latency_ms": [3, 1]}, "device b: latency_ms"),
        ({"latency_ms": [1]}, "device b: latency_ms"),
        ({"id": 7}, "row 1 has no id"),
    ],
)
def test_a_malformed_row_is_refused_by_name(tmp_path, changes, why):
    path = written(tmp_path, a_device(), a_device(**{"id": "b", **changes}))
    with pytest.raises(BadInput, match=why):
        device_file(path)(KEYS[:2], 0)


def test_a_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(BadInput, match="there is no file"):
        device_file(str(tmp_path / "nowhere.json"))(KEYS[:1], 0)
    with pytest.raises(BadInput, match="fedfleet/devices@1"):
        device_file(written(tmp_path, a_device(), form="fedfleet/states@1"))(KEYS[:1], 0)
    with pytest.raises(BadInput, match="missing or empty"):
        device_file(written(tmp_path))(KEYS[:1], 0)
    broken = tmp_path / "broken.json"
    broken.write_text('{"format": ')
    with pytest.raises(BadInput, match="cannot be read as JSON"):
        device_file(str(broken))(KEYS[:1], 0)


def test_levelled_devices_are_all_the_median_one():
    keys = client_keys(51)
    price = Cost(np.ones(51), np.full(51, 1e7), np.full(51, 1e7))
    source = spread()(keys, 2)
    took = source.seconds(np.arange(51), price, 0.0, np.zeros(51, np.int64))
    flat = median_devices(source).seconds(np.arange(51), price, 0.0, np.zeros(51, np.int64))
    assert (flat == np.median(took)).all()
