"""Windows of motion sensors that people wear: prepared windows of WISDM and of phone and watch, and HARBox's text files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedfleet.core.parts import Dataset
from fedfleet.core.records import Ints
from fedfleet.core.trees import Array
from fedfleet.tasks.data_files import arrays, number_names

GRAVITY = np.float32(9.81)
# The order of ClusterFL, which published the set.
HARBOX_ACTIVITIES = ("Call", "Hop", "typing", "Walk", "Wave")
HARBOX_STEPS, HARBOX_COLUMNS = 100, 10  # two seconds at 50 Hz; time, then nine axes


@dataclass(frozen=True, slots=True)
class WearableData:
    """Windows and which device of its owner recorded each: `devices[device[i]]`. For users with several devices."""

    dataset: Dataset
    device: Ints
    devices: tuple[str, ...]


def read_wisdm(path: Path) -> Dataset:
    """WISDM's watch windows: acceleration in g, [3, 200], owner = user."""
    x, y, user, classes = arrays(path, "x", "y", "user", "classes")
    windows = np.ascontiguousarray(np.swapaxes(x.astype(np.float32), 1, 2)) / GRAVITY
    return Dataset(windows, y.astype(np.int64), len(classes), number_names(user))


def read_phone_watch(path: Path) -> WearableData:
    """Phone and watch of the same people: acceleration in g and rotation in rad/s, [6, 128], owner = user."""
    x, y, user, watch, classes = arrays(path, "x", "y", "user", "is_watch", "classes")
    windows = np.ascontiguousarray(np.swapaxes(x.astype(np.float32), 1, 2))
    windows[:, :3] /= GRAVITY
    dataset = Dataset(windows, y.astype(np.int64), len(classes), number_names(user))
    return WearableData(dataset, watch.astype(np.int64), ("phone", "watch"))


def read_harbox(path: Path) -> Dataset:
    """HARBox: folders USER/ACTIVITY_train.txt, rows of time and nine axes, 100 rows a window: [9, 100], owner = user.

    The axes have unlike units (acceleration, rotation, magnetic field), so each is brought to mean 0 and deviation 1.
    """
    windows: list[Array] = []
    labels: list[Ints] = []
    users: list[Ints] = []
    folders = sorted((f for f in path.parents[1].iterdir() if f.is_dir()), key=lambda f: (len(f.name), f.name))
    for user, folder in enumerate(folders):
        for label, activity in enumerate(HARBOX_ACTIVITIES):
            file = folder / f"{activity}_train.txt"
            if file.is_file():
                file_windows = _harbox_windows(file)
                windows.append(file_windows)
                labels.append(np.full(len(file_windows), label))
                users.append(np.full(len(file_windows), user))
    x = np.concatenate(windows)
    x -= x.mean((0, 2), keepdims=True)
    x /= np.maximum(x.std((0, 2), keepdims=True), np.float32(1e-6))
    return Dataset(x, np.concatenate(labels), len(HARBOX_ACTIVITIES), number_names(np.concatenate(users)))


def _harbox_windows(path: Path) -> Array:
    rows = np.loadtxt(path, dtype=np.float32, ndmin=2)
    if rows.shape[1] != HARBOX_COLUMNS:
        raise ValueError(f"{path} has {rows.shape[1]} columns instead of {HARBOX_COLUMNS}")
    whole = len(rows) // HARBOX_STEPS
    cut = rows[: whole * HARBOX_STEPS, 1:].reshape(whole, HARBOX_STEPS, HARBOX_COLUMNS - 1)
    return np.ascontiguousarray(np.swapaxes(cut, 1, 2))
