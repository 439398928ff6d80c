"""Tasks on speech: which word was said?"""

from __future__ import annotations

from typing import Any

from fedfleet.core.limits import Count
from fedfleet.tasks.data_files import Source, data_from
from fedfleet.tasks.readers import wav
from fedfleet.tasks.synthetic import synthetic_data
from fedfleet.tasks.task import TaskRecipe, fit_task

SHAPE = (1, wav.FRAMES, wav.BANDS)
COMMANDS = Source(
    "Speech Commands (WAV folders)",
    tuple(f"{d}/*/*_nohash_*.wav" for d in ("speech_commands", "speech_commands_v0.02", "speech_commands/v0.02")),
    wav.read_commands,
)
SPECTROGRAMS = Source("Speech Commands (log-mel)", ("speech_commands/logmel49x40_u8.npz",), wav.read_spectrograms)


def _net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
    from fedfleet.tasks.nets.vision import PoolingCnn

    return PoolingCnn(shape, (16, 32, 64), 64, classes, scale=scale)


def kws_cnn(*, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """Three convolutions on 49x40 log-mel energies of spoken words, by speaker.

    All words of Speech Commands from its WAV folders where they are, else the prepared twelve classes.
    """
    load = data_from(
        (COMMANDS, SPECTROGRAMS), synthetic_data("speech", SHAPE, 12), samples=samples, synthetic=synthetic
    )
    return fit_task("kws_cnn", load, _net)


def speech_cnn(*, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """Three convolutions on the prepared twelve classes of Speech Commands, 239 speakers."""
    load = data_from((SPECTROGRAMS,), synthetic_data("speech", SHAPE, 12, 239), samples=samples, synthetic=synthetic)
    return fit_task("speech_cnn", load, _net)
