"""Shakespeare's plays by role, cut into windows of 80 characters and the character that follows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np

from fedfleet.core.parts import Dataset
from fedfleet.core.records import Ints

# LEAF's vocabulary of 80, so that models and results can be compared. What is not in it counts as a space.
LETTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
WINDOW = 80
_TABLE = np.full(256, LETTERS.index(" "), np.int64)
_TABLE[np.frombuffer(LETTERS.encode("latin-1"), np.uint8)] = np.arange(len(LETTERS))


def as_numbers(text: str) -> Ints:
    """Characters as numbers 0..79.

    >>> as_numbers("a b").tolist()
    [53, 1, 54]
    """
    return _TABLE[np.minimum(np.frombuffer(text.encode("utf-32-le"), "<u4"), 255)]


def read_roles(path: Path, *, stride: int, most: int) -> Dataset:
    """{"play/role": [speech, ..]}: a window every `stride` characters of a role's joined speeches, at most `most` of them.

    Roles that say 80 characters or fewer are left out.
    """
    with gzip.open(path, "rt", encoding="utf-8") as file:
        roles = json.load(file)
    text: list[Ints] = []
    following: list[Ints] = []
    owner: list[Ints] = []
    for _, speeches in sorted(roles.items()):
        characters = as_numbers("\n".join(speeches))
        if len(characters) > WINDOW:
            windows = np.lib.stride_tricks.sliding_window_view(characters, WINDOW + 1)[::stride][:most]
            text.append(windows[:, :WINDOW])
            following.append(windows[:, WINDOW])
            owner.append(np.full(len(windows), len(owner)))
    return Dataset(np.concatenate(text), np.concatenate(following), len(LETTERS), np.concatenate(owner))
