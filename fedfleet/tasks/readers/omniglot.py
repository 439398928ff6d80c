"""Omniglot: drawings of characters as PNG files in zip archives, alphabet/character/number_drawer.png."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

import numpy as np

from fedfleet.core.parts import Dataset
from fedfleet.tasks.data_files import number_names, sample_rows
from fedfleet.tasks.readers.pictures import resize
from fedfleet.tasks.readers.png import decode_png

SIDE = 28
CHUNK = 512  # pictures that are shrunk at once


def read_omniglot(path: Path, samples: int | None) -> Dataset:
    """All archives beside this one, shrunk to 28x28, ink 1 on 0; a class is a character, an owner a drawer's number.

    Each alphabet was drawn by twenty people numbered 1 to 20; whether number 7 is the same person in two alphabets is not
    published, and is taken so here. The small background sets share two alphabets, whose drawings count once.
    """
    drawings: dict[str, tuple[Path, str]] = {}
    for archive in sorted(path.parent.glob("*.zip")):
        with zipfile.ZipFile(archive) as file:
            for name in sorted(file.namelist()):
                if name.endswith(".png"):
                    drawings.setdefault(name.partition("/")[2], (archive, name))
    entries = list(drawings.values())
    parts = [PurePosixPath(name) for name in drawings]
    y = number_names(["/".join(p.parts[-3:-1]) for p in parts])
    owner = number_names([p.stem.rpartition("_")[2] for p in parts])
    rows = sample_rows(len(entries), samples)
    pictures = _pictures([entries[i] for i in rows])
    x = np.empty((len(rows), 1, SIDE, SIDE), np.float32)
    for a in range(0, len(rows), CHUNK):
        x[a : a + CHUNK, 0] = 1.0 - resize(pictures[a : a + CHUNK], SIDE) / 255.0
    return Dataset(x, y[rows], int(y.max()) + 1, owner[rows])


def _pictures(entries: list[tuple[Path, str]]) -> np.ndarray:
    pictures: list[np.ndarray] = []
    for archive in dict.fromkeys(a for a, _ in entries):
        with zipfile.ZipFile(archive) as file:
            pictures += [decode_png(file.read(name))[:, :, 0] for a, name in entries if a == archive]
    return np.stack(pictures)
