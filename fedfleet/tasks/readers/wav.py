"""Speech Commands: one second of speech per WAV file as 49 x 40 log-mel energies."""

from __future__ import annotations

import wave
from functools import cache
from pathlib import Path

import numpy as np

from fedfleet.core.parts import Dataset
from fedfleet.core.trees import Array
from fedfleet.tasks.data_files import arrays, number_names, sample_rows

RATE, FRAME, HOP, BANDS = 16_000, 480, 320, 40  # 30 ms every 20 ms: 49 frames in a second
FRAMES = (RATE - FRAME) // HOP + 1
FFT, FLOOR = 512, 1e-6
LOWEST, HIGHEST = 20.0, 8_000.0  # Hz
MIDDLE, SPREAD = -6.0, 5.0  # about the mean and deviation of log-mel values, so that inputs are of size one
CHUNK = 256


def log_mel(clips: Array) -> Array:
    """Samples in [-1, 1], [n, 16000], as natural logarithms of mel energies [n, 49, 40].

    Energies are squared magnitudes of the transform of Hann-weighted frames, summed by triangles on the mel scale.
    """
    frames = np.lib.stride_tricks.sliding_window_view(clips, FRAME, axis=1)[:, ::HOP][:, :FRAMES]
    power = np.abs(np.fft.rfft(frames * np.hanning(FRAME).astype(np.float32), FFT, axis=2)) ** 2
    return np.log(power.astype(np.float32) @ _triangles() + np.float32(FLOOR))


def read_wav(path: Path) -> Array:
    """One second of a 16-bit mono file at 16 kHz, cut or filled with silence, in [-1, 1]."""
    with wave.open(str(path), "rb") as file:
        if (file.getnchannels(), file.getsampwidth(), file.getframerate()) != (1, 2, RATE):
            raise ValueError(f"{path.name} is not 16-bit mono at 16 kHz")
        data = np.frombuffer(file.readframes(RATE), "<i2")
    clip = np.zeros(RATE, np.float32)
    clip[: len(data)] = data / np.float32(32768)
    return clip


def read_commands(path: Path, samples: int | None) -> Dataset:
    """Folders word/speaker_nohash_k.wav: a class is a word, an owner a speaker; background noise is left out."""
    words = sorted(p for p in path.parents[1].iterdir() if p.is_dir() and not p.name.startswith("_"))
    files = [f for word in words for f in sorted(word.glob("*.wav"))]
    rows = sample_rows(len(files), samples)
    y, owner = number_names([f.parent.name for f in files]), number_names([f.name.partition("_")[0] for f in files])
    x = np.empty((len(rows), 1, FRAMES, BANDS), np.float32)
    for a in range(0, len(rows), CHUNK):
        x[a : a + CHUNK, 0] = _normalise(log_mel(np.stack([read_wav(files[i]) for i in rows[a : a + CHUNK]])))
    return Dataset(x, y[rows], int(y.max()) + 1, owner[rows])


def read_spectrograms(path: Path, samples: int | None) -> Dataset:
    """Prepared log-mel energies as bytes over a scale. Silence has no speaker and is dealt to the speakers in turn."""
    del samples
    x, scale, y, classes, speaker = arrays(path, "x", "scale", "y", "classes", "speaker")
    low, high = scale.astype(np.float32)
    values = low + x.astype(np.float32) * ((high - low) / np.float32(255))
    owner = np.empty(len(y), np.int64)
    known = speaker != ""
    owner[known] = number_names(speaker[known])
    owner[~known] = np.arange(np.count_nonzero(~known)) % (owner[known].max() + 1)
    return Dataset(_normalise(values)[:, None], y.astype(np.int64), len(classes), owner)


def _normalise(values: Array) -> Array:
    return (values - np.float32(MIDDLE)) / np.float32(SPREAD)


@cache
def _triangles() -> Array:
    """[257, 40]: each column a triangle over frequencies, its feet at its neighbours' peaks; equal steps in mel."""
    mel = np.linspace(1127 * np.log1p(LOWEST / 700), 1127 * np.log1p(HIGHEST / 700), BANDS + 2)
    peaks = 700 * np.expm1(mel / 1127)
    hertz = np.arange(FFT // 2 + 1)[:, None] * (RATE / FFT)
    rising = (hertz - peaks[:-2]) / (peaks[1:-1] - peaks[:-2])
    falling = (peaks[2:] - hertz) / (peaks[2:] - peaks[1:-1])
    return np.maximum(np.minimum(rising, falling), 0.0).astype(np.float32)
