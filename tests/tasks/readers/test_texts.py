"""Shakespeare's roles, cut into windows of letters."""

import gzip
import json

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.readers.texts import LETTERS, as_numbers
from fedfleet.tasks.text import char_lstm, shakespeare_lstm, twitter_logreg
from tests.tasks.files import leaf, written


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    return tmp_path


def test_the_letters_are_leafs():
    assert len(LETTERS) == 80 and as_numbers(LETTERS).tolist() == list(range(80))
    assert as_numbers("\t$é€").tolist() == [LETTERS.index(" ")] * 4


def test_roles_are_cut_into_windows(data):
    speech = "".join(LETTERS[i % 80] for i in range(150))
    roles = {"b/LONG": [speech, speech], "a/SHORT": ["x" * 80], "a/JUST": ["y" * 81]}
    written(data / "shakespeare" / "roles.json.gz", gzip.compress(json.dumps(roles).encode()))
    result = shakespeare_lstm(stride=100)(0).dataset
    # 301 characters give windows at 0, 100, 200; 81 characters give one; 80 give none, for nothing follows.
    assert result.x.shape == (4, 80) and result.x.dtype == np.int64
    assert result.owner.tolist() == [0, 1, 1, 1] and result.classes == 80
    assert result.x[1].tolist() == list(range(80)) and result.y[1] == 0
    assert result.x[2, 50] == LETTERS.index("\n")  # speeches are joined by a new line
    assert len(char_lstm(stride=1, per_role=5)(0).dataset.y) == 6


def put_tweets(data):
    rows = [["1", "monday", "NO_QUERY", "ann", text, "training"] for text in ("Good GOOD day", "zzz", "bad , day")]
    leaf(data / "sent140" / "all.json", {"ann": (rows[:2], [1, 0]), "bob": (rows[2:], ["4"])})
    table = {"good": 1.0, "day": 4.0, "bad": -2.0, ",": 0.5, "unused": 9.0}
    return [" ".join([w, *[str(v)] * 50]) for w, v in table.items()]


def test_tweets_as_mean_or_joined_word_vectors(data):
    lines = put_tweets(data)
    with pytest.raises(BadInput, match="GloVe"):
        twitter_logreg()(0)
    written(data / "glove" / "glove.6B.50d.txt", "\n".join(lines))
    result = twitter_logreg()(0).dataset
    assert result.x.shape == (3, 50) and result.y.tolist() == [1, 0, 1] and result.owner.tolist() == [0, 0, 1]
    assert np.allclose(result.x[:, 0], [2.0, 0.0, 2.5 / 3])
    joined = twitter_logreg(words=2)(0)
    assert joined.dataset.x.shape == (3, 100) and np.allclose(joined.dataset.x[2], [-2.0] * 50 + [0.5] * 50)
    assert joined.init(0)["1.weight"].shape == (2, 100)
