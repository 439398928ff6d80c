"""Devices worn by people: HARBox, and the phone and watch."""

import io
import zipfile

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.readers.wearables import ACTIVITIES, PLACEMENTS, join_recordings, read_realworld
from fedfleet.tasks.sensors import harbox_cnn, harbox_mlp, realworld_cnn
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


def recording(seconds, shift=0.0, step=20.0):
    t = 1e6 + shift + np.arange(0, seconds * 1000, step)
    lines = ["id,attr_time,attr_x,attr_y,attr_z"]
    lines += [f"{i},{v:.0f},{v - 1e6},{9.81},{2 * (v - 1e6)}" for i, v in enumerate(t)]
    return "\n".join(lines) + "\n"


def put_realworld(data, people=2, placements=("chest", "waist"), seconds=41):
    for person in range(1, people + 1):
        folder = data / "realworld" / f"proband{person}" / "data"
        folder.mkdir(parents=True)
        for activity in ("walking", "jumping"):
            for kind, prefix in (("acc", "acc"), ("gyr", "Gyroscope")):
                with zipfile.ZipFile(folder / f"{kind}_{activity}_csv.zip", "w") as file:
                    for place in placements:
                        file.writestr(f"{prefix}_{activity}_{place}.csv", recording(seconds))
    return folder


def test_realworld_becomes_three_users_a_person(data):
    put_realworld(data)
    path = next((data / "realworld").glob("proband*/data/acc_*"))
    result = read_realworld(path)
    # 2 people, 2 activities, 2 placements, 20 windows of two seconds in 41 seconds
    assert result.dataset.x.shape == (160, 6, 100) and result.dataset.classes == 8
    assert set(result.dataset.y) == {ACTIVITIES.index("walking"), ACTIVITIES.index("jumping")}
    assert result.devices == PLACEMENTS and np.bincount(result.device).tolist() == [80, 0, 0, 0, 0, 0, 80]
    people = result.dataset.owner // 3
    assert np.bincount(people).tolist() == [80, 80] and result.dataset.owner.max() <= 5
    assert np.allclose(result.dataset.x[:, 1], 1.0)  # gravity
    assert np.array_equal(read_realworld(path).dataset.owner, result.dataset.owner)
    assert len(realworld_cnn(test_users=1)(0).dataset.y) == 160


def test_sessions_lie_in_archives_of_archives(data):
    folder = put_realworld(data, people=1)
    for kind, prefix in (("acc", "acc"), ("gyr", "Gyroscope")):
        with zipfile.ZipFile(folder / f"{kind}_lying_csv.zip", "w") as outer:
            for session in (1, 2):
                inner = io.BytesIO()
                with zipfile.ZipFile(inner, "w") as file:
                    file.writestr(f"{prefix}_lying_head.csv", recording(5 * session))
                outer.writestr(f"{kind}_lying_{session}_csv.zip", inner.getvalue())
    result = read_realworld(folder / "acc_lying_csv.zip").dataset
    assert np.count_nonzero(result.y == ACTIVITIES.index("lying")) == 2 + 4  # sessions of 5 and of 10 seconds


def test_recordings_meet_on_one_clock():
    fast = np.column_stack([np.arange(0, 4100, 10.0)] + [np.arange(0, 4100, 10.0)] * 3)
    late = np.column_stack([np.arange(50, 4110, 20.0)] + [np.arange(50, 4110, 20.0)] * 3)
    windows = join_recordings(fast, late)
    assert windows.shape == (2, 6, 100)
    assert np.allclose(windows[0, 0, :3] * 9.81, [50, 70, 90], atol=1e-3)
    assert np.allclose(windows[0, 3, :3], [50, 70, 90]) and np.allclose(windows[1, 3, 0], 50 + 2000)


def test_a_recording_without_its_columns_is_refused(data):
    folder = data / "realworld" / "proband1" / "data" / "acc_walking_csv"
    written(folder / "acc_walking_chest.csv", "a,b\n1,2\n")
    with pytest.raises(BadInput, match=r"RealWorld cannot be read from .*attr_time"):
        realworld_cnn()(0)
