"""Where datasets lie: public sets are read from $FEDFLEET_DATA, never shipped; made-up data only when asked for."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset
from fedfleet.core.records import Ints
from fedfleet.core.rng import stream
from fedfleet.core.trees import Array

CHECKOUT_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
# What damaged or foreign files raise in numpy, json, zip, gzip, wave and ourselves.
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, IndexError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, slots=True)
class Source:
    """A public set: its name, the paths where it may lie, and how it is read.

    `places` are patterns below the data folder, `elsewhere` below the current folder or from the root (packages of the
    system). `read(path, samples)` gets a file that matches; it may ignore `samples`, a limit, where reading is cheap.
    """

    name: str
    places: tuple[str, ...]
    read: Callable[[Path, int | None], Dataset]
    elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loader:
    """How a task gets its data, and whether they are here."""

    load: Callable[[], Dataset]
    here: Callable[[], bool]

    def __call__(self) -> Dataset:
        return self.load()


def data_from(
    sources: Sequence[Source], make_synthetic: Callable[[int | None], Dataset], *, samples: int | None, synthetic: bool
) -> Loader:
    """A loader: the first source that is there, at most `samples` of it; or made-up data, if and only if asked for."""

    def here() -> bool:
        return synthetic or any(locate(source.places, source.elsewhere) is not None for source in sources)

    def load() -> Dataset:
        if synthetic:
            return make_synthetic(samples)
        for source in sources:
            path = locate(source.places, source.elsewhere)
            if path is not None:
                return limit_samples(read(source, path, samples), samples)
        # One place is enough to say where a set belongs; readers know several.
        names, place = " or ".join(source.name for source in sources), sources[0].places[0]
        raise BadInput(
            f"task: {names} is not here; put it into {roots()[-1]} (or the folder that FEDFLEET_DATA names) as {place}, "
            "or set synthetic = true to use made-up data of the same shape"
        )

    return Loader(load, here)


def read(source: Source, path: Path, samples: int | None = None) -> Dataset:
    """The set at this path; what is damaged there is named."""
    try:
        return source.read(path, samples)
    except _UNREADABLE as error:
        raise BadInput(f"{source.name} cannot be read from {path}: {type(error).__name__}: {error}") from error


def roots() -> list[Path]:
    """The data folders: $FEDFLEET_DATA, else the one beside a checkout and ./data, where `fedfleet data` puts things."""
    folder = os.environ.get("FEDFLEET_DATA")
    return [Path(folder)] if folder else [CHECKOUT_DATA, Path("data")]


def locate(places: Sequence[str], elsewhere: Sequence[str] = ()) -> Path | None:
    """A file that matches the earliest possible pattern; of several that match it any will do, a reader knows its folder."""
    candidates = [(root, pattern) for pattern in places for root in roots()]
    candidates += [(Path("/") if p.startswith("/") else Path(), p.lstrip("/")) for p in elsewhere]
    for base, pattern in candidates:
        path = next(iter(base.glob(pattern)), None)
        if path is not None:
            return path
    return None


def sample_rows(rows: int, samples: int | None) -> Ints:
    """Which of a number of rows are used: all, or `samples` of them, the same ones every time."""
    if samples is None or samples >= rows:
        return np.arange(rows)
    return np.sort(stream(0, "samples", rows).permutation(rows)[:samples])


def limit_samples(dataset: Dataset, samples: int | None) -> Dataset:
    """At most `samples` rows of a dataset."""
    if samples is None or samples >= len(dataset.y):
        return dataset
    rows = sample_rows(len(dataset.y), samples)
    owner = None if dataset.owner is None else dataset.owner[rows]
    return replace(dataset, x=dataset.x[rows], y=dataset.y[rows], owner=owner)


def pixels(grey: Array) -> Array:
    """Bytes 0..255 as float32 in [0, 1]."""
    return np.multiply(grey, np.float32(1 / 255), dtype=np.float32)


def number_names(names: Array | Sequence[object]) -> Ints:
    """Names as numbers 0, 1, .. in the order of the sorted names."""
    return np.unique(np.asarray(names), return_inverse=True)[1].astype(np.int64)


def arrays(path: Path, *names: str) -> list[Array]:
    """Arrays of an .npz file, which may hold no pickles."""
    with np.load(path, allow_pickle=False) as file:
        return [file[name] for name in names]
