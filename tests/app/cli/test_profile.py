"""`fedfleet profile`: this machine as a row of a devices file."""

import json

from fedfleet.world.bases import load_devices
from tests.app.specs import refused


def test_this_device_becomes_a_row(fedfleet, tmp_path):
    path = tmp_path / "mine.json"
    words = ("profile", "--task", "digits_logreg", "--iterations", 3, "--out", path)
    assert fedfleet(*words, "--id", "one")[0] == 0
    assert fedfleet(*words, "--id", "two")[0] == 0
    code, out, _ = fedfleet(*words, "--id", "one", "--json")
    got = json.loads(out)
    assert code == 0
    assert got["row"]["seconds_per_sample"] > 0
    assert load_devices(str(path)).ids.tolist() == ["two", "one"], "a device is replaced by its newer measurement"
    (tmp_path / "other.json").write_text("{}")
    assert fedfleet("profile", "--task", "digits_logreg", "--iterations", 1, "--out", tmp_path / "other.json")[0] == 2
    assert (tmp_path / "other.json").read_text() == "{}", "what is not a devices file is left alone"


def test_a_misspelt_task_is_refused(fedfleet):
    refused(fedfleet("profile", "--task", "digits_cn"), "did you mean 'digits_cnn'")
