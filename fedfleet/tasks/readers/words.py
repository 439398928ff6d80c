"""Sentences as word vectors, from GloVe's text file: a word and its numbers on each line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedfleet.core.trees import Array

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
