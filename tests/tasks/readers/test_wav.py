"""Spoken words: WAV files and their log-mel energies."""

import numpy as np
import pytest

from fedfleet.tasks.readers.wav import BANDS, FLOOR, log_mel, read_wav
from fedfleet.tasks.sensors import kws_cnn
from tests.tasks.files import wav

RNG = np.random.default_rng(2)


SECOND = np.arange(16_000) / 16_000


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    return tmp_path


def test_a_tone_lights_up_its_band():
    tones = np.stack([np.sin(2 * np.pi * f * SECOND) for f in (300, 1000, 3000)]).astype(np.float32)
    result = log_mel(tones)
    assert result.shape == (3, 49, 40) and np.isfinite(result).all()
    mel = np.linspace(1127 * np.log1p(20 / 700), 1127 * np.log1p(8000 / 700), BANDS + 2)[1:-1]
    nearest = [np.argmin(abs(mel - 1127 * np.log1p(f / 700))) for f in (300, 1000, 3000)]
    assert result.mean(1).argmax(1).tolist() == nearest
    assert np.allclose(log_mel(np.zeros((1, 16_000), np.float32)), np.log(FLOOR))


def test_short_clips_are_filled_and_long_ones_cut(tmp_path):
    wav(tmp_path / "short.wav", np.full(100, 0.5))
    wav(tmp_path / "long.wav", np.full(20_000, 0.5))
    short, long = read_wav(tmp_path / "short.wav"), read_wav(tmp_path / "long.wav")
    assert short.shape == long.shape == (16_000,)
    assert np.allclose(short[:100], 0.5, atol=1e-3) and not short[100:].any() and np.allclose(long, 0.5, atol=1e-3)
    wav(tmp_path / "slow.wav", np.zeros(10), rate=8_000)
    with pytest.raises(ValueError, match="16 kHz"):
        read_wav(tmp_path / "slow.wav")


def test_folders_of_words(data):
    for word, speakers in (("yes", "ab"), ("no", "bc"), ("go", "a")):
        for speaker in speakers:
            wav(data / "speech_commands" / word / f"{speaker}00_nohash_0.wav", RNG.normal(0, 0.1, 16_000).clip(-1, 1))
    wav(data / "speech_commands" / "_background_noise_" / "hum_nohash_1.wav", np.zeros(10))
    task = kws_cnn()(0)
    result = task.dataset
    assert result.x.shape == (5, 1, 49, 40) and result.classes == 3
    assert result.y.tolist() == [0, 1, 1, 2, 2] and result.owner.tolist() == [0, 1, 2, 0, 1]
    assert abs(result.x).max() < 4
    assert task.init(0)["head.bias"].shape == (3,)
    assert len(kws_cnn(samples=2)(0).dataset.y) == 2
