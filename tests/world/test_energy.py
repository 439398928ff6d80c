"""Energy sources: watts times seconds by hand, tails, kinds, carbon over the day."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.core.rng import client_keys
from fedfleet.core.stages import STAGES
from fedfleet.world.devices import homogeneous, spread
from fedfleet.world.energy import LINKS, carbon, energy_file, none, per_kind, phones

KEYS = client_keys(6)
DEVICES = spread()(KEYS, 1)  # kinds: slow, middle, fast
LAWS = settings(deadline=None, derandomize=True, max_examples=60)
PLAIN = {"compute": 5.0, "receive": 1.0, "transmit": 2.0, "waiting": 0.5}


def joules(recipe, *, start=0.0, devices=DEVICES, clients=(0,), **spent):
    """What one task draws, or several alike."""
    n = len(clients)
    columns = {stage: np.full(n, took) for stage, took in spent.items()}
    return recipe(devices, KEYS, 1).charges(np.array(clients), columns, np.full(n, start))["joules"]


def test_joules_are_seconds_by_stage_times_watts():
    plain = phones(**PLAIN, tail=0.0)
    whole = {"latency": 2.0, "download": 3.0, "compute": 4.0, "upload": 5.0, "exchange": 6.0, "averaging": 8.0}
    # Both ways cost the mean of receiving and transmitting.
    assert joules(plain, **whole) == pytest.approx(0.5 * 2 + 1 * 3 + 5 * 4 + 2 * 5 + 1.5 * (6 + 8))
    assert joules(plain, planning=100.0, delivery=100.0) == 0.0, "a gateway is plugged in, a network is nobody's battery"


def test_a_radio_stays_awake_after_a_transfer():
    tail = phones(**PLAIN, tail=1.0, tail_seconds=10.0)
    bare = phones(**PLAIN, tail=0.0)
    for spent, awake in (
        ({"download": 1.0, "compute": 30.0, "upload": 1.0}, 20.0),
        ({"download": 1.0, "compute": 4.0, "upload": 1.0}, 14.0),  # the upload takes over after 4 seconds
        ({"download": 1.0, "compute": 4.0}, 4.0),  # given up while it computed
        ({"download": 1.0}, 0.0),
        ({"compute": 30.0}, 0.0),
        ({"upload": 1.0}, 10.0),
    ):
        assert joules(tail, **spent) - joules(bare, **spent) == pytest.approx(awake), spent


def test_the_defaults_are_those_of_the_link():
    work = {"download": 10.0, "compute": 10.0, "upload": 10.0}
    wifi, lte = joules(phones(), **work), joules(phones(link="4g"), **work)
    assert wifi == pytest.approx(10 * (4.9 + 0.697 + 0.399) + 0.119 * 2 * 0.238)
    assert lte == pytest.approx(10 * (4.9 + 1.950 + 3.761) + 1.060 * (10 + 11.576))
    # The power model of MobiSys 2012 at its median speeds.
    assert LINKS["4g"].receive == pytest.approx(1.28804 + 0.05197 * 12.74, abs=1e-3)
    assert LINKS["4g"].transmit == pytest.approx(1.28804 + 0.43839 * 5.64, abs=1e-3)
    assert LINKS["wifi"].receive == pytest.approx(0.13286 + 0.13701 * 4.12, abs=1e-3)
    assert LINKS["wifi"].transmit == pytest.approx(0.13286 + 0.28317 * 0.94, abs=1e-3)


@LAWS
@given(st.lists(st.floats(0, 1e6), min_size=len(STAGES), max_size=len(STAGES)), st.sampled_from(["wifi", "4g"]))
def test_doubling_the_seconds_doubles_the_joules_without_tails(took, link):
    work = dict(zip(STAGES, took, strict=True))
    plain = phones(link=link, tail=0.0)
    assert joules(plain, **{s: 2.0 * t for s, t in work.items()}) == 2.0 * joules(plain, **work)
    tail = phones(link=link)
    assert joules(tail, **{s: 2.0 * t for s, t in work.items()}) <= 2.0 * joules(tail, **work)


def test_kinds_have_their_own_watts_and_the_rest_those_of_phones():
    recipe = per_kind(watts={"slow": {"compute": 2.0}, "fast": {"compute": 8.0}})
    result = joules(recipe, clients=range(6), compute=10.0)
    by_kind = {"slow": 20.0, "middle": 49.0, "fast": 80.0}
    assert result.tolist() == pytest.approx([by_kind[kind] for kind in DEVICES.kinds])
    plain = homogeneous()(KEYS, 1)
    assert joules(per_kind(watts={"a": {"compute": 1.0}}), devices=plain, compute=10.0) == 10.0


def test_kinds_that_are_plain_names_are_looked_up_too():
    named = replace(DEVICES, kinds=["b", "a", "b", "c", "a", "b"])
    result = joules(per_kind(watts={"b": {"compute": 1.0}, "c": {"compute": 3.0}}), devices=named, clients=range(6), compute=1.0)
    assert result.tolist() == [1.0, 4.9, 1.0, 3.0, 4.9, 1.0]


def test_what_nobody_has_is_refused():
    with pytest.raises(BadInput, match=r"no device is of the kind 'slwo'.*slow"):
        per_kind(watts={"slwo": {"compute": 1.0}})(DEVICES, KEYS, 1)
    with pytest.raises(BadInput, match=r"watts.slow has no key 'computer'.*compute"):
        per_kind(watts={"slow": {"computer": 1.0}})


def test_watts_come_from_a_file(tmp_path):
    path = tmp_path / "watts.json"
    path.write_text(json.dumps({"format": "fedfleet/energy@1", "watts": {"slow": {"compute": 2}}}))
    inline = per_kind(watts={"slow": {"compute": 2.0}})
    assert (joules(energy_file(str(path)), clients=range(6), compute=3.0) == joules(inline, clients=range(6), compute=3.0)).all()


@pytest.mark.parametrize(
    "content",
    [{}, [], {"format": "fedfleet/devices@1", "watts": {}}, {"format": "fedfleet/energy@1", "watts": []},
     {"format": "fedfleet/energy@1", "watts": {"a": 3}}, {"format": "fedfleet/energy@1", "watts": {"a": {"compute": -1}}},
     {"format": "fedfleet/energy@1", "watts": {"a": {"compute": True}}},
     {"format": "fedfleet/energy@1", "watts": {"a": {"compute": float("nan")}}}],
)  # fmt: skip
def test_a_file_that_is_none_is_refused(tmp_path, content):
    path = tmp_path / "watts.json"
    path.write_text(json.dumps(content))
    with pytest.raises(BadInput, match=r"watts\.json"):
        energy_file(str(path))


def grams(recipe, *hours):
    start = np.array(hours) * 3600.0
    return recipe(DEVICES, KEYS, 1).charges(np.zeros(len(hours), np.int64), {"compute": np.ones(len(hours))}, start)["grams"]


KILOWATT_HOUR = phones(compute=3.6e6)  # a second of work


def test_carbon_follows_the_hour_at_which_a_task_starts():
    evening = carbon(KILOWATT_HOUR, base=400.0, swing=100.0, peak_hour=18.0)
    assert grams(evening, 18, 6, 0, 18 + 48).tolist() == pytest.approx([500.0, 300.0, 400.0, 500.0])
    halves = carbon(KILOWATT_HOUR, hours=[100.0, 700.0])
    assert grams(halves, 0, 11.9, 12, 23.99, 24, 36).tolist() == pytest.approx([100.0, 100.0, 700.0, 700.0, 100.0, 700.0])
    assert grams(carbon(KILOWATT_HOUR), 3, 15).tolist() == pytest.approx([480.0, 480.0])


def test_carbon_leaves_the_joules_as_they_are_and_knows_nothing_of_what_is_not_counted():
    assert joules(carbon(phones()), compute=7.0) == joules(phones(), compute=7.0)
    nothing = carbon(none())(DEVICES, KEYS, 1)
    assert nothing.charges(np.array([0]), {"compute": np.ones(1)}, np.zeros(1)) == {}


def test_carbon_that_could_be_negative_or_says_nothing_is_refused():
    with pytest.raises(BadInput, match="swing = 500"):
        carbon(phones(), swing=500.0)
    with pytest.raises(BadInput, match=r"world.energy.hours: .*empty"):
        carbon(phones(), hours=[])
