"""Sentences as word vectors."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.text import twitter_logreg
from tests.tasks.files import leaf, written


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    return tmp_path


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
