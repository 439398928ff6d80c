"""Pictures in folders and archives, a folder to a class or a person: CelebA-like folders and Omniglot.

FedScale's OpenImage (client_data_mapping/train.csv) and COVID-FL (labels.csv and one list per client) are such sets.
"""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset
from fedfleet.tasks.data_files import number_names, sample_rows
from fedfleet.tasks.readers.pictures import SUFFIXES, find_picture, read_pictures, resize
from fedfleet.tasks.readers.png import decode_png

# One picture: who holds it, where it is, what it shows.
Row = tuple[str, Path, str]
_COLUMNS = (("client_id", "client"), ("sample_path", "path"), ("label_id", "label"))


def places(name: str) -> tuple[str, ...]:
    """Where the pictures of a set of this name may be listed or lie."""
    tables = ("client_data_mapping/train.csv", "clients.csv", "labels.csv")
    return tuple(f"{name}/{t}" for t in tables) + tuple(f"{name}/*/*/*{s}" for s in SUFFIXES)


def read_folder(path: Path, samples: int | None, *, side: int, channels: int) -> Dataset:
    """The pictures that this table lists, or among which this picture lies, squeezed to side x side."""
    if path.name == "labels.csv":
        rows = _client_lists(path)
    elif path.suffix == ".csv":
        rows = _table(path)
    else:
        rows = _client_folders(path.parents[2])
    y, owner = number_names([label for _, _, label in rows]), number_names([client for client, _, _ in rows])
    chosen = sample_rows(len(rows), samples)
    x = read_pictures([rows[i][1] for i in chosen], side, channels)
    return Dataset(x, y[chosen], int(y.max()) + 1, owner[chosen])


def _table(path: Path) -> list[Row]:
    """A header that names client, path and label (or client_id, sample_path, label_id), then a row per picture."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        names = [next((n for n in known if n in (reader.fieldnames or ())), None) for known in _COLUMNS]
        if None in names:
            raise ValueError(f"the first line of {path.name} must name the columns client, path and label")
        client, where, label = (str(n) for n in names)
        entries = [(row[client], row[where], row[label]) for row in reader]
    return [(c, _picture(path.parent, p), v) for c, p, v in entries]


def _client_lists(labels: Path) -> list[Row]:
    """COVID-FL: labels.csv (picture,label), N_clients/split_real/CLIENT.csv (a picture on each line), pictures in train/."""
    with labels.open(newline="", encoding="utf-8-sig") as file:
        known = {row[0]: row[1] for row in csv.reader(file) if len(row) > 1}
    lists = sorted(labels.parent.glob("*_clients/split_*/*.csv"))
    split = [f for f in lists if f.parent == lists[0].parent]
    rows: list[Row] = []
    for client_file in split:
        with client_file.open(newline="", encoding="utf-8-sig") as file:
            names = [row[0] for row in csv.reader(file) if row]
        rows += [(client_file.stem, _picture(labels.parent, n), known[n]) for n in dict.fromkeys(names)]
    return rows


def _client_folders(root: Path) -> list[Row]:
    files = (f for f in sorted(root.glob("*/*/*")) if f.suffix.lower() in SUFFIXES)
    return [(f.parts[-3], f, f.parts[-2]) for f in files]


def _picture(folder: Path, name: str) -> Path:
    bases = (folder, folder / "train", folder.parent, folder.parent / "train")
    path = find_picture(bases, name)
    if path is None:
        raise BadInput(f"the picture {name} was not found in any of {', '.join(str(b) for b in bases)}")
    return path


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
