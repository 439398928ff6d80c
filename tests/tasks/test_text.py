"""Tasks on text: which source comes first, what the models take in."""

import gzip
import json

import numpy as np
import pytest

from fedfleet.tasks.readers.texts import LETTERS
from fedfleet.tasks.text import char_lstm, shakespeare_lstm, twitter_logreg
from tests.tasks.files import leaf, written


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    return tmp_path


def test_leafs_windows_go_before_the_texts_of_roles(data):
    written(data / "shakespeare" / "roles.json.gz", gzip.compress(json.dumps({"a/A": ["x" * 200]}).encode()))
    from_roles = char_lstm(stride=40)(0).dataset
    assert np.array_equal(from_roles.x, shakespeare_lstm(stride=40)(0).dataset.x)
    leaf(data / "leaf_shakespeare" / "all.json", {"A": (["a" * 80], ["b"])})
    assert len(char_lstm()(0).dataset.y) == 1
    assert len(shakespeare_lstm(stride=40)(0).dataset.y) == len(from_roles.y), "which reads nothing but roles"


def test_the_model_predicts_one_of_the_letters():
    task = char_lstm(hidden=5, synthetic=True, samples=10)(0)
    params = task.init(0)
    assert params["head.weight"].shape == (len(LETTERS), 5) and params["embedding.weight"].shape == (80, 8)


@pytest.mark.parametrize(("words", "inputs"), [(0, 50), (1, 50), (3, 150)])
def test_tweets_take_a_mean_or_so_many_words(words, inputs):
    task = twitter_logreg(words=words, synthetic=True, samples=10)(0)
    assert task.dataset.x.shape == (10, inputs) and task.init(0)["1.weight"].shape == (2, inputs)
