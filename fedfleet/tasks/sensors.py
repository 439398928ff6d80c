"""Tasks on sensors of phones and watches: motion, and spoken words."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedfleet.core.limits import Count, Natural, Width
from fedfleet.tasks.data_files import Source, data_from
from fedfleet.tasks.narrow_models import units
from fedfleet.tasks.readers import wav, wearables
from fedfleet.tasks.synthetic import synthetic_data
from fedfleet.tasks.task import Net, TaskRecipe, fit_task

WISDM = Source("WISDM", ("wisdm51/windows200x3.npz",), lambda path, samples: wearables.read_wisdm(path))
PHONE_WATCH = Source(
    "GeoTecINIT's phone and watch", ("sp_sw_har/windows128x6.npz",), lambda path, samples: wearables.read_phone_watch(path).dataset
)
HARBOX = Source(
    "HARBox",
    tuple(f"{d}/*/*_train.txt" for d in ("harbox", "harbox/large_scale_HARBox", "large_scale_HARBox")),
    lambda path, samples: wearables.read_harbox(path),
)
REALWORLD = Source(
    "RealWorld",
    tuple(f"{d}/proband*/data/acc_*" for d in ("realworld", "realworld2016_dataset")),
    lambda path, samples: wearables.read_realworld(path).dataset,
)


def _windows(hidden: int) -> Net:
    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.small import WindowCnn

        return WindowCnn(shape, hidden, classes, scale=scale)

    return net


def har_cnn(*, hidden: Width = 128, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """Two convolutions along time on WISDM's watch windows where they are, else on those of phone and watch."""
    load = data_from((WISDM, PHONE_WATCH), synthetic_data("har", (3, 200), 6, 51), samples=samples, synthetic=synthetic)
    return fit_task("har_cnn", load, _windows(hidden))


def wisdm_cnn(*, hidden: Width = 128, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """Two convolutions along time on WISDM's watch windows [3, 200]: six activities, 51 users."""
    load = data_from((WISDM,), synthetic_data("wisdm", (3, 200), 6, 51), samples=samples, synthetic=synthetic)
    return fit_task("wisdm_cnn", load, _windows(hidden))


def phone_watch_cnn(*, hidden: Width = 128, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """Two convolutions along time on windows [6, 128] of the phone and the watch of 23 users: five activities."""
    load = data_from((PHONE_WATCH,), synthetic_data("phone_watch", (6, 128), 5, 23), samples=samples, synthetic=synthetic)
    return fit_task("phone_watch_cnn", load, _windows(hidden))


def harbox_mlp(
    *, hidden: Width = 128, test_users: Natural = 21, samples: Count | None = None, synthetic: bool = False
) -> TaskRecipe:
    """A perceptron on HARBox's 900 features: five activities, 121 users, of whom 21 are the central test (ShuffleFL).

    `test_users` 0 holds out a fifth of all samples instead.
    """

    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.small import perceptron

        return perceptron(int(np.prod(shape)), [units(hidden, scale)], classes)

    load = data_from((HARBOX,), synthetic_data("harbox", (9, 100), 5, 121), samples=samples, synthetic=synthetic)
    return fit_task("harbox_mlp", load, net, test_users=test_users)


def harbox_cnn(
    *, hidden: Width = 128, test_users: Natural = 21, samples: Count | None = None, synthetic: bool = False
) -> TaskRecipe:
    """Two convolutions along time on HARBox's windows [9, 100]; otherwise as harbox_mlp."""
    load = data_from((HARBOX,), synthetic_data("harbox", (9, 100), 5, 121), samples=samples, synthetic=synthetic)
    return fit_task("harbox_cnn", load, _windows(hidden), test_users=test_users)


def realworld_cnn(
    *, hidden: Width = 128, test_users: Natural = 9, samples: Count | None = None, synthetic: bool = False
) -> TaskRecipe:
    """Two convolutions along time on RealWorld's windows [6, 100]: eight activities, seven placements, 45 users.

    As ShuffleFL has it: each of 15 people becomes three users by Dirichlet(0.5) draws per placement; nine of the 45 are the
    central test. `test_users` 0 holds out a fifth of all samples instead.
    """
    load = data_from((REALWORLD,), synthetic_data("realworld", (6, 100), 8, 45), samples=samples, synthetic=synthetic)
    return fit_task("realworld_cnn", load, _windows(hidden), test_users=test_users)


SHAPE = (1, wav.FRAMES, wav.BANDS)
COMMANDS = Source(
    "Speech Commands (WAV folders)",
    tuple(f"{d}/*/*_nohash_*.wav" for d in ("speech_commands", "speech_commands_v0.02", "speech_commands/v0.02")),
    wav.read_commands,
)
SPECTROGRAMS = Source("Speech Commands (log-mel)", ("speech_commands/logmel49x40_u8.npz",), wav.read_spectrograms)


def _net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
    from fedfleet.tasks.nets.small import PoolingCnn

    return PoolingCnn(shape, (16, 32, 64), 64, classes, scale=scale)


def kws_cnn(*, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """Three convolutions on 49x40 log-mel energies of spoken words, by speaker.

    All words of Speech Commands from its WAV folders where they are, else the prepared twelve classes.
    """
    load = data_from((COMMANDS, SPECTROGRAMS), synthetic_data("speech", SHAPE, 12), samples=samples, synthetic=synthetic)
    return fit_task("kws_cnn", load, _net)


def speech_cnn(*, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """Three convolutions on the prepared twelve classes of Speech Commands, 239 speakers."""
    load = data_from((SPECTROGRAMS,), synthetic_data("speech", SHAPE, 12, 239), samples=samples, synthetic=synthetic)
    return fit_task("speech_cnn", load, _net)
