"""The real sets where they are there: sizes, owners, ranges."""

import numpy as np
import pytest

from fedfleet.core.registry import builder
from fedfleet.tasks.data_files import locate
from fedfleet.tasks.readers.wearables import read_phone_watch
from fedfleet.tasks.sensors import PHONE_WATCH
from tests.real import ROOT

pytestmark = pytest.mark.slow

# name -> folder, samples, shape, classes, owners
SETS = {
    "chars74k_cnn": ("chars74k", 3410, (1, 28, 28), 62, 55),
    "omniglot_cnn": ("omniglot", 4840, (1, 28, 28), 242, 20),
    "shakespeare_lstm": ("shakespeare", 94911, (80,), 80, 1158),
    "speech_cnn": ("speech_commands", 4890, (1, 49, 40), 12, 239),
    "wisdm_cnn": ("wisdm51", 7130, (3, 200), 6, 51),
    "phone_watch_cnn": ("sp_sw_har", 7485, (6, 128), 5, 23),
    "covid_cnn": ("covid_cxr", 851, (1, 64, 64), 3, 443),
    "pneumonia_cnn": ("pneumonia", 5030, (1, 28, 28), 2, None),
}


@pytest.fixture(autouse=True)
def _data(monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(ROOT))


@pytest.mark.parametrize("name", SETS)
def test_real_sets(name):
    folder, samples, shape, classes, owners = SETS[name]
    if not (ROOT / folder).is_dir():
        pytest.skip(f"{folder} is not in {ROOT} ($FEDFLEET_DATA)")
    result = builder("tasks", name)()(0).dataset
    assert result.x.shape == (samples, *shape) and result.classes == classes
    assert result.y.min() >= 0 and 0.8 * classes < len(np.unique(result.y)) <= classes
    if owners is None:
        assert result.owner is None
    else:
        assert np.array_equal(np.unique(result.owner), np.arange(owners))
    if result.x.dtype == np.float32:
        assert np.isfinite(result.x).all() and 0.1 < result.x.std() < 3
    else:
        assert result.x.min() >= 0 and result.x.max() < classes


def test_phone_and_watch_are_told_apart():
    path = locate(PHONE_WATCH.places)
    if path is None:
        pytest.skip(f"sp_sw_har is not in {ROOT} ($FEDFLEET_DATA)")
    result = read_phone_watch(path)
    assert result.devices == ("phone", "watch")
    for user in np.unique(result.dataset.owner):
        assert set(result.device[result.dataset.owner == user]) == {0, 1}
