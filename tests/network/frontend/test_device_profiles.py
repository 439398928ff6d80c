"""What devices measured of themselves: checked, one line each, and not without end."""

import json
import stat

import pytest

from fedfleet.core.errors import Refused
from fedfleet.network.frontend import device_profiles
from fedfleet.network.frontend.device_profiles import DeviceProfiles, check_profile

GOOD = {"model": "Pixel 6", "seconds_per_batch": 0.25, "kind": "phone", "batch": 32}


def test_each_measurement_is_a_line_with_its_client(tmp_path):
    path = tmp_path / "profiles.jsonl"
    for client in (4, 2):  # two frontends append to one file
        DeviceProfiles(path).append(client, json.dumps(GOOD).encode())
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"client": 4, **GOOD}, {"client": 2, **GOOD}]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"client": 9}, "has no field 'client'"),
        ({"model": ""}, "a text of 1 to 100 letters"),
        ({"model": "a" * 101}, "a text of 1 to 100 letters"),
        ({"kind": 3}, "a text of 1 to 100 letters"),
        ({"battery": -0.5}, "a number that is not negative"),
        ({"battery": True}, "a number that is not negative"),
        ({"battery": "full"}, "a number that is not negative"),
        ({"seconds_per_batch": 1e18}, "a number that is not negative"),
        ({"seconds_per_batch": float("nan")}, "a number that is not negative"),
        ({"seconds_per_batch": float("inf")}, "a number that is not negative"),
    ],
)
def test_what_is_no_measurement_is_refused_and_leaves_no_file(change, why, tmp_path):
    path = tmp_path / "profiles.jsonl"
    with pytest.raises(Refused, match=why):
        DeviceProfiles(path).append(1, json.dumps({**GOOD, **change}).encode())
    assert not path.exists()


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"\xff", b"7"])
def test_a_profile_is_an_object(data):
    with pytest.raises(Refused, match="an object of JSON"):
        check_profile(data)


@pytest.mark.parametrize("name", ["model", "seconds_per_batch"])
def test_what_a_profile_needs(name):
    with pytest.raises(Refused, match=f"needs '{name}'"):
        check_profile(json.dumps({n: v for n, v in GOOD.items() if n != name}).encode())


def test_the_name_of_a_model_cannot_write_on_a_terminal():
    profile = check_profile(json.dumps({**GOOD, "model": "a\x1b[31m\n"}).encode())
    assert str(profile["model"]).isprintable()


def test_the_file_has_a_limit(tmp_path, monkeypatch):
    path = tmp_path / "profiles.jsonl"
    profiles, data = DeviceProfiles(path), json.dumps(GOOD).encode()
    profiles.append(1, data)
    monkeypatch.setattr(device_profiles, "_MAX_BYTES", 2 * path.stat().st_size)
    profiles.append(1, data)
    before = path.read_bytes()
    with pytest.raises(Refused, match="and has them"):
        profiles.append(1, data)
    assert path.read_bytes() == before


def test_a_folder_that_is_not_there_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(Refused, match="cannot write profiles"):
        DeviceProfiles(tmp_path / "none" / "profiles.jsonl").append(1, json.dumps(GOOD).encode())
