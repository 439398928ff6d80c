"""Tasks on motion: windows in g, whole users held out, and which set comes first."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.readers.wearables import GRAVITY
from fedfleet.tasks.sensors import (
    SHAPE,
    har_cnn,
    harbox_mlp,
    kws_cnn,
    phone_watch_cnn,
    realworld_cnn,
    speech_cnn,
    wisdm_cnn,
)
from tests.tasks.files import wav


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    return tmp_path


def saved(path, **arrays):
    path.parent.mkdir(parents=True)
    np.savez(path, **arrays)


def put_wisdm(data):
    saved(
        data / "wisdm51" / "windows200x3.npz", x=np.full((3, 200, 3), GRAVITY), y=np.array([0, 1, 1]),
        user=np.array([7, 5, 7]), classes=np.array(["walk", "sit"]),
    )  # fmt: skip


def put_phone_and_watch(data):
    saved(
        data / "sp_sw_har" / "windows128x6.npz", x=np.full((2, 128, 6), GRAVITY), y=np.array([0, 1]),
        user=np.array(["b", "a"]), is_watch=np.array([0, 1]), classes=np.array(["walk", "sit"]),
    )  # fmt: skip


def test_wisdm_is_in_units_of_gravity(data):
    put_wisdm(data)
    result = wisdm_cnn()(0).dataset
    assert result.x.shape == (3, 3, 200) and np.allclose(result.x, 1.0)
    assert (result.owner.tolist(), result.classes) == ([1, 0, 1], 2)


def test_rotation_is_not_gravity(data):
    put_phone_and_watch(data)
    result = phone_watch_cnn()(0).dataset
    assert np.allclose(result.x[:, :3], 1.0) and np.allclose(result.x[:, 3:], GRAVITY)


def test_wisdm_goes_before_phone_and_watch(data):
    put_phone_and_watch(data)
    assert har_cnn()(0).dataset.x.shape[1:] == (6, 128)
    put_wisdm(data)
    assert har_cnn()(0).dataset.x.shape[1:] == (3, 200)


def test_whole_users_are_held_out():
    task = realworld_cnn(synthetic=True, samples=200)(0)
    outside = set(task.dataset.owner[task.holdout].tolist())
    assert len(outside) == 9
    assert set(np.flatnonzero(np.isin(task.dataset.owner, list(outside))).tolist()) == set(task.holdout.tolist())
    fifth = realworld_cnn(test_users=0, synthetic=True, samples=200)(0)
    assert len(fifth.holdout) == 40


def test_somebody_must_be_left_to_train():
    with pytest.raises(BadInput, match=r"task\.test_users = 200: the data has 121 users"):
        harbox_mlp(test_users=200, synthetic=True, samples=300)(0)


def put_spectrograms(data):
    folder = data / "speech_commands"
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(
        folder / "logmel49x40_u8.npz", x=np.arange(4 * 49 * 40, dtype=np.uint32).reshape(4, 49, 40).astype(np.uint8),
        scale=np.array([-10.0, 5.0]), y=np.array([0, 1, 2, 2]), classes=np.array(["yes", "no", "silence"]),
        speaker=np.array(["bo", "al", "", ""]),
    )  # fmt: skip


def test_prepared_spectrograms(data):
    put_spectrograms(data)
    result = speech_cnn()(0).dataset
    assert result.x.shape == (4, *SHAPE) and result.classes == 3
    assert result.owner.tolist() == [1, 0, 0, 1], "silence belongs to the speakers in turn"
    assert np.array_equal(kws_cnn()(0).dataset.x, result.x), "where there are no WAV folders"


def test_wav_folders_go_first(data):
    put_spectrograms(data)
    wav(data / "speech_commands" / "go" / "al_nohash_0.wav", np.zeros(16_000))
    wav(data / "speech_commands" / "up" / "bo_nohash_0.wav", np.full(16_000, 0.1))
    assert kws_cnn()(0).dataset.classes == 2
    assert speech_cnn()(0).dataset.classes == 3


def test_without_data_both_places_are_named(data):
    with pytest.raises(BadInput, match=r"WAV folders.*log-mel"):
        kws_cnn()(0)
