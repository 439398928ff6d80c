"""Texts: Shakespeare's plays as windows of characters, and sentences as GloVe's word vectors."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.kinds import NEXT_TOKEN
from fedfleet.core.parts import Dataset
from fedfleet.core.records import Ints
from fedfleet.core.trees import Array

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


def read_role_sequences(path: Path, *, window: int, most: int) -> Dataset:
    """The same texts for the next character at every place: windows side by side, at most `most` of a role."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        roles = json.load(file)
    return text_windows({name: "\n".join(speeches) for name, speeches in sorted(roles.items())}, window, most)


def package_texts(window: int) -> Dataset:
    """The descriptions of datasets that ship with scikit-learn, cut into windows; each text is an owner."""
    spec = importlib.util.find_spec("sklearn")
    places = [Path(at) / "datasets/descr" for at in (spec.submodule_search_locations or ())] if spec else []
    files = sorted(file for place in places for file in place.glob("*.rst"))
    if not files:
        raise BadInput("these texts ship with scikit-learn, which is not installed; install fedfleet[train]")
    return text_windows({file.stem: file.read_text(encoding="utf-8") for file in files}, window)


def text_windows(owners: Mapping[str, str], window: int, most: int | None = None) -> Dataset:
    """Texts by owner as windows side by side: at every place the label is the next character.

    >>> found = text_windows({"ann": "abcdefg", "bob": "ab"}, 3)
    >>> found.x.shape, found.owner_names, bool((found.x[:, 1:] == found.y[:, :-1]).all())
    ((2, 3), ('ann',), True)
    """
    text, owner, names = list[Ints](), list[Ints](), list[str]()
    for name, words in owners.items():
        characters = as_numbers(words)
        if len(characters) > window:
            windows = np.lib.stride_tricks.sliding_window_view(characters, window + 1)[::window][:most]
            text.append(windows)
            owner.append(np.full(len(windows), len(names)))
            names.append(name)
    if not text:
        raise BadInput(f"task.window = {window}: no text is longer; use a smaller window")
    both = np.concatenate(text)
    return Dataset(
        both[:, :-1].copy(), both[:, 1:].copy(), len(LETTERS), np.concatenate(owner), NEXT_TOKEN, tuple(LETTERS), tuple(names)
    )


def as_sequences(dataset: Dataset) -> Dataset:
    """Windows with one next character as windows with one at every place."""
    both = np.concatenate([dataset.x, dataset.y[:, None]], 1)
    return replace(dataset, x=both[:, :-1].copy(), y=both[:, 1:].copy(), kind=NEXT_TOKEN)


WIDTH = 50
_WORD = re.compile(r"[\w']+|[.,!?;]")


def words_of(text: str) -> list[str]:
    """Lower-case words and marks, in order.

    >>> words_of("So GOOD, isn't it?")
    ['so', 'good', ',', "isn't", 'it', '?']
    """
    return _WORD.findall(text.lower())


def sentence_vectors(texts: Sequence[str], glove: Path, first: int) -> Array:
    """[n, 50]: the mean vector of the words that GloVe knows; or [n, 50 * first]: the first words' vectors in a row.

    FS-REAL's text says that the vectors are concatenated; words that GloVe does not know, or that are missing, are zeros.
    """
    sentences = [words_of(t) for t in texts]
    table = _vectors(glove, {w for s in sentences for w in s})
    out = np.zeros((len(texts), max(first, 1), WIDTH), np.float32)
    for i, sentence in enumerate(sentences):
        if first:
            for j, word in enumerate(sentence[:first]):
                out[i, j] = table.get(word, 0.0)
        else:
            known = [table[w] for w in sentence if w in table]
            out[i, 0] = np.mean(known, axis=0) if known else 0.0
    return out.reshape(len(texts), -1)


def _vectors(path: Path, wanted: set[str]) -> dict[str, Array]:
    """Only the wanted words: the whole file has 400,000."""
    vectors: dict[str, Array] = {}
    with path.open(encoding="utf-8") as file:
        for line in file:
            word, _, numbers = line.partition(" ")
            if word in wanted:
                vector = np.array(numbers.split(), np.float32)
                if len(vector) != WIDTH:
                    raise ValueError(f"{path.name} has {len(vector)} numbers for {word!r} instead of {WIDTH}")
                vectors[word] = vector
    return vectors
