"""LEAF's JSON files: {"users": [..], "user_data": {user: {"x": [..], "y": [..]}}}, one or several in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset
from fedfleet.tasks.data_files import locate, number_names, sample_rows
from fedfleet.tasks.readers.pictures import find_picture, fit_picture, read_pictures
from fedfleet.tasks.readers.texts import as_numbers, sentence_vectors

CELEBA_SIDE = 84
GLOVE = ("glove/glove.6B.50d.txt", "sent140/glove.6B.50d.txt", "twitter/glove.6B.50d.txt", "glove.6B.50d.txt")


def places(*names: str) -> tuple[str, ...]:
    """Where LEAF's scripts and people put the files of a set that goes by these names."""
    subfolders = ("", "all_data/", "data/all_data/", "train/", "data/train/")
    return tuple(f"{name}/{folder}*.json" for name in names for folder in subfolders)


def samples_of(path: Path, enough: int | None) -> tuple[list[Any], list[Any], list[str]]:
    """Inputs, labels and users of all files beside this one, whole files until there are `enough` samples."""
    x: list[Any] = []
    y: list[Any] = []
    owners: list[str] = []
    files = sorted(path.parent.glob("*.json"))
    if path.parent.name == "train":
        files += sorted((path.parent.parent / "test").glob("*.json"))
    for file in files:
        for user, user_data in users_of(file):
            x += user_data["x"]
            y += user_data["y"]
            owners += [user] * len(user_data["y"])
        if enough is not None and len(y) >= enough:
            break
    if len(x) != len(y) or not y:
        raise ValueError(f"there are {len(x)} inputs and {len(y)} labels")
    return x, y, owners


def read_femnist(path: Path, samples: int | None) -> Dataset:
    """FEMNIST: 784 numbers in [0, 1] per image, 62 classes, owner = writer. Turned to ink 1 on 0, as MNIST has it."""
    x, y, owners = samples_of(path, samples)
    rows = sample_rows(len(y), samples)
    images = 1.0 - np.array([x[i] for i in rows], np.float32).reshape(-1, 1, 28, 28)
    return Dataset(images, _labels(y, 62)[rows], 62, number_names(owners)[rows])


def read_shakespeare(path: Path, samples: int | None) -> Dataset:
    """Shakespeare: 80 characters and the one that follows, owner = role."""
    x, y, owners = samples_of(path, samples)
    rows = sample_rows(len(y), samples)
    text = np.stack([as_numbers(x[i]) for i in rows])
    return Dataset(text, np.array([as_numbers(y[i])[0] for i in rows]), 80, number_names(owners)[rows])


def read_celeba(path: Path, samples: int | None) -> Dataset:
    """CelebA, smiling or not, owner = celebrity: names of pictures beside the files, or (FederatedScope) their pixels."""
    x, y, owners = samples_of(path, samples)
    rows = sample_rows(len(y), samples)
    if isinstance(x[0], str):
        bases = [p / sub for p in path.parents[:3] for sub in ("img_align_celeba", "raw/img_align_celeba", "")]
        picture_paths = [find_picture(bases, x[i]) for i in rows]
        if None in picture_paths:
            missing = x[rows[picture_paths.index(None)]]
            raise BadInput(f"CelebA's picture {missing} is not in img_align_celeba next to {path}; unpack the pictures there")
        images = read_pictures([f for f in picture_paths if f is not None], CELEBA_SIDE, 3)
    else:
        shape = (CELEBA_SIDE, CELEBA_SIDE, 3)
        images = np.stack([fit_picture(np.array(x[i], np.uint8).reshape(shape), CELEBA_SIDE, 3) for i in rows])
    return Dataset(images, _labels(y, 2)[rows], 2, number_names(owners)[rows])


def read_twitter(path: Path, samples: int | None, *, words: int = 0) -> Dataset:
    """Sentiment140: tweets as 50-d GloVe vectors, their mean or the first `words` one after the other; owner = user."""
    x, y, owners = samples_of(path, samples)
    rows = sample_rows(len(y), samples)
    glove = locate(GLOVE)
    if glove is None:
        raise BadInput(f"GloVe's vectors ({' or '.join(GLOVE)}) are not in the folder of the tweets; unpack glove.6B.zip there")
    # A tweet is LEAF's row [id, date, query, user, text, ..], or the text itself.
    texts = [x[i] if isinstance(x[i], str) else x[i][4] for i in rows]
    labels = np.array([int(float(v)) != 0 for v in y], np.int64)  # Sentiment140 itself writes 0 and 4
    return Dataset(sentence_vectors(texts, glove, words), labels[rows], 2, number_names(owners)[rows])


def users_of(path: Path) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """The users of one file, each with inputs x and labels y."""
    with path.open(encoding="utf-8") as file:
        content = json.load(file)
    if not isinstance(content, dict) or "user_data" not in content:
        raise ValueError(f"{path.name} has no user_data, so it is not in LEAF's format")
    yield from content["user_data"].items()


def _labels(y: list[Any], classes: int) -> np.ndarray:
    labels = np.array(y, np.float64).astype(np.int64)
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"labels go from {labels.min()} to {labels.max()}, but there are {classes} classes")
    return labels
