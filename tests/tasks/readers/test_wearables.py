"""Devices worn by people: HARBox, and the phone and watch."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.motion import harbox_cnn, harbox_mlp
from tests.tasks.files import written

RNG = np.random.default_rng(2)


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    return tmp_path


def put_harbox(data, users=4, rows=250):
    for user in range(1, users + 1):
        for activity in ("Walk", "typing"):
            table = np.column_stack([np.arange(rows), RNG.normal(user, 2.0, (rows, 9))])
            table[:, 9] *= 50  # a magnetic field, in other units
            text = "\n".join(" ".join(f"{v:.4f}" for v in row) for row in table)
            written(data / "harbox" / str(user) / f"{activity}_train.txt", text)


def test_harbox_holds_out_whole_users(data):
    put_harbox(data)
    task = harbox_mlp(test_users=1)(0)
    result = task.dataset
    assert result.x.shape == (16, 9, 100) and result.classes == 5  # two whole windows of 250 rows
    assert np.bincount(result.y, minlength=5).tolist() == [0, 0, 8, 8, 0]
    assert np.bincount(result.owner).tolist() == [4] * 4
    assert np.allclose(result.x.std((0, 2)), 1, atol=1e-3) and np.allclose(result.x.mean((0, 2)), 0, atol=1e-3)
    assert len(np.unique(result.owner[task.holdout])) == 1 and len(task.holdout) == 4
    assert len(harbox_cnn(test_users=0)(0).holdout) == 3
    with pytest.raises(BadInput, match=r"task\.test_users = 21: the data has 4 users"):
        harbox_mlp()(0)


def test_harbox_with_a_missing_column_is_refused(data):
    written(data / "harbox" / "1" / "Walk_train.txt", "1 2 3\n" * 100)
    with pytest.raises(BadInput, match="3 columns instead of 10"):
        harbox_mlp()(0)
