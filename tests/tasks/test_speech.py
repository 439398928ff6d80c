"""Tasks on speech: WAV folders first, prepared spectrograms else; silence is dealt to the speakers."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.speech import SHAPE, kws_cnn, speech_cnn
from tests.tasks.files import wav


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    return tmp_path


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
