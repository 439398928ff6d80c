"""Shakespeare's roles, cut into windows of letters."""

import gzip
import json

import numpy as np
import pytest

from fedfleet.tasks.readers.plays import LETTERS, as_numbers
from fedfleet.tasks.text import char_lstm, shakespeare_lstm
from tests.tasks.files import written


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
