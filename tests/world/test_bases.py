"""A path or a prefix leads to its loader; anything else is refused by name."""

import json

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.world.bases import load_devices, load_states


def test_prefixes(tmp_path):
    with pytest.raises(BadInput, match="did you mean 'flhetbench'"):
        load_devices("flhetbensh:x")
    with pytest.raises(BadInput, match="has no states"):
        load_states("fsreal:")
    with pytest.raises(BadInput, match="no file"):
        load_devices(str(tmp_path / "none.json"))
    assert len(load_devices("fsreal:")) == len(load_devices("fsreal")) == 72


def test_a_path_without_a_prefix_is_a_canonical_file(tmp_path):
    path = tmp_path / "d.json"
    row = {"id": "a", "down_kbps": [1000.0], "up_kbps": None, "seconds_per_sample": 0.1}
    path.write_text(json.dumps({"format": "fedfleet/devices@1", "devices": [row]}))
    assert load_devices(str(path)).ids.tolist() == ["a"]
    with pytest.raises(BadInput, match="not a states file"):
        load_states(str(path))


def test_the_builtin_base_needs_no_path_and_takes_a_number_of_rows():
    assert len(load_states("builtin")) == len(load_states("builtin:")) == 700
    assert len(load_devices("builtin:7")) == 7
