"""Windows of motion sensors that people wear: prepared windows of WISDM and of phone and watch, and HARBox's text files.

Files: probandN/data/acc_ACTIVITY_csv.zip and gyr_ACTIVITY_csv.zip (or folders of those names), a CSV per placement with
columns attr_time in ms, attr_x, attr_y, attr_z; some archives hold archives, one per session.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedfleet.core.parts import Dataset
from fedfleet.core.records import Ints
from fedfleet.core.rng import stream
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


ACTIVITIES = ("climbingdown", "climbingup", "jumping", "lying", "running", "sitting", "standing", "walking")
PLACEMENTS = ("chest", "forearm", "head", "shin", "thigh", "upperarm", "waist")
STEP_MS, STEPS = 20, 100  # 50 Hz; a window of two seconds every two seconds
USERS_PER_PERSON, ALPHA = 3, 0.5
_COLUMNS = ("attr_time", "attr_x", "attr_y", "attr_z")


def read_realworld(path: Path) -> WearableData:
    """All windows [6, 100], acceleration in g and rotation; each person's become three users' by Dirichlet(0.5) draws."""
    windows: list[Array] = []
    records: list[tuple[int, int, int, int]] = []  # person, activity, placement, windows
    people = sorted(path.parents[2].glob("proband*"), key=lambda p: (len(p.name), p.name))
    for person, folder in enumerate(people):
        for label, activity in enumerate(ACTIVITIES):
            accelerations = _recordings(folder / "data", f"acc_{activity}_csv")
            rotations = _recordings(folder / "data", f"gyr_{activity}_csv")
            for place, name in enumerate(PLACEMENTS):
                for a, g in zip(accelerations.get(name, []), rotations.get(name, []), strict=False):
                    windows.append(join_recordings(a, g))
                    records.append((person, label, place, len(windows[-1])))
    person, y, place, counts = (np.array(v, np.int64) for v in zip(*records, strict=True))
    person, y, place = (np.repeat(v, counts) for v in (person, y, place))
    owner = person * USERS_PER_PERSON + _split_person(person, y, place)
    return WearableData(Dataset(np.concatenate(windows), y, len(ACTIVITIES), owner), place, PLACEMENTS)


def join_recordings(acceleration: Array, rotation: Array) -> Array:
    """Two recordings [time and three axes] on one 50 Hz clock, cut into windows [n, 6, 100]; the rest is dropped."""
    start = max(acceleration[0, 0], rotation[0, 0])
    end = min(acceleration[-1, 0], rotation[-1, 0])
    clock = np.arange(start, end, STEP_MS)
    whole = len(clock) // STEPS
    clock = clock[: whole * STEPS]
    axes = [np.interp(clock, r[:, 0], r[:, i]) for r in (acceleration, rotation) for i in (1, 2, 3)]
    windows = np.array(axes, np.float32).reshape(6, whole, STEPS).swapaxes(0, 1).copy()
    windows[:, :3] /= GRAVITY
    return windows


def _split_person(person: Ints, y: Ints, place: Ints) -> Ints:
    """Which of a person's three users gets each window: for each placement and activity a Dirichlet draw of its own."""
    part = np.zeros(len(y), np.int64)
    for p in np.unique(person):
        for d in range(len(PLACEMENTS)):
            rng = stream(0, "realworld", int(p), d)
            for label in range(len(ACTIVITIES)):
                indices = rng.permutation(np.flatnonzero((person == p) & (place == d) & (y == label)))
                shares = np.cumsum(rng.dirichlet([ALPHA] * USERS_PER_PERSON))
                cuts = np.floor(shares * len(indices) + 0.5)
                part[indices] = np.searchsorted(cuts[:-1], np.arange(len(indices)), side="right")
    return part


def _recordings(folder: Path, name: str) -> dict[str, list[Array]]:
    """Recordings by placement, sessions in the order of their names; time runs forward in each."""
    result: dict[str, list[Array]] = {}
    for file, text in sorted(_tables(folder, name)):
        tokens = re.split(r"[_.]", file.lower())
        place = next((p for p in PLACEMENTS if p in tokens), None)
        if place is not None:
            result.setdefault(place, []).append(_table(text, file))
    return result


def _tables(folder: Path, name: str) -> Iterator[tuple[str, str]]:
    for file in sorted((folder / name).glob("*.csv")):
        yield file.name, file.read_text(encoding="utf-8")
    packed = folder / f"{name}.zip"
    if packed.is_file():
        yield from _archive_tables(packed.read_bytes(), "")


def _archive_tables(data: bytes, prefix: str) -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in sorted(archive.namelist()):
            if member.endswith(".zip"):
                yield from _archive_tables(archive.read(member), f"{member}_")
            elif member.endswith(".csv"):
                yield prefix + member, archive.read(member).decode()


def _table(text: str, name: str) -> Array:
    header = text.partition("\n")[0].strip().split(",")
    if not set(_COLUMNS) <= set(header):
        raise ValueError(f"{name} has the columns {header} instead of {list(_COLUMNS)}")
    columns = [header.index(c) for c in _COLUMNS]
    rows = np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1, usecols=columns, ndmin=2)
    return rows[np.argsort(rows[:, 0], kind="stable")]
