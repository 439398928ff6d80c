"""Where a model of another kind than classification is right and wrong on the central test set, as metrics.json holds it.

Numbers: what was predicted against what was true, and the error by bins of what was true. Several labels: each label by itself.
Sequences: the tokens at which most predictions are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedfleet.core.kinds import IGNORED
from fedfleet.core.records import Floats
from fedfleet.core.trees import Array

MOST_PAIRS = 400  # of a predicted and a true number, that a page draws
MOST_ENTRIES = 100  # labels or outputs that a page lists
MOST_TOKENS = 20
_BINS = 8  # of the true numbers, with about as many in each
_DIGITS = 7  # of a number on a page


def fit_results(labels: Array, outputs: Array, scale: Sequence[tuple[float, float]], names: Sequence[str]) -> dict[str, Any]:
    """Predicted against true numbers in the label's own units: `pairs` (true, predicted), `bins` of what is true with the error in
    each, and of several outputs each by itself. What is not finite is left out, and counted.

    >>> y, out = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([[0.0], [1.0], [2.0], [5.0]])
    >>> found = fit_results(y, out, [(10.0, 2.0)], [])
    >>> found["pairs"][-1], found["bins"][-1]["rmse"], found["bins"][-1]["low"]
    ([16.0, 20.0], 4.0, 15.25)
    """
    shift, factor = (np.array([one[i] for one in scale] or [(0.0, 1.0)[i]], np.float64) for i in (0, 1))
    true, guess = (shift + factor * np.asarray(v, np.float64).reshape(labels.shape) for v in (labels, outputs))
    finite = np.isfinite(guess)
    flat_true, flat_guess = true[finite], guess[finite]
    chosen = np.unique(np.linspace(0, max(len(flat_true) - 1, 0), min(len(flat_true), MOST_PAIRS)).astype(np.int64))
    pairs = [[_short(a), _short(b)] for a, b in zip(flat_true[chosen].tolist(), flat_guess[chosen].tolist(), strict=True)]
    result: dict[str, Any] = {"pairs": pairs, "numbers": int(true.size), "not_finite": int((~finite).sum())}
    result["bins"] = _error_bins(flat_true, flat_guess)
    count = labels.shape[1]
    if 1 < count <= MOST_ENTRIES:
        result["outputs"] = [
            {"name": names[i] if i < len(names) else f"output {i}", **_error_of(true[finite[:, i], i], guess[finite[:, i], i])}
            for i in range(count)
        ]
    return result


def _error_bins(true: Floats, guess: Floats) -> list[dict[str, Any]]:
    """The error in each bin of what is true; bins of equal size, fewer where many numbers are the same."""
    if not len(true):
        return []
    edges = np.unique(np.quantile(true, np.linspace(0.0, 1.0, _BINS + 1)))
    where = np.clip(np.searchsorted(edges, true, side="right") - 1, 0, max(len(edges) - 2, 0))
    rows = list[dict[str, Any]]()
    for i in range(max(len(edges) - 1, 1)):
        mine = where == i
        if mine.any():
            high = edges[min(i + 1, len(edges) - 1)]
            rows.append({"low": _short(edges[i]), "high": _short(high), **_error_of(true[mine], guess[mine])})
    return rows


def _error_of(true: Floats, guess: Floats) -> dict[str, Any]:
    """How many numbers, the root of their mean squared error, and by how much the model is too high on average."""
    if not len(true):
        return {"n": 0, "rmse": None, "bias": None}
    error = guess - true
    return {"n": len(true), "rmse": _short(math.sqrt(float(np.square(error).mean()))), "bias": _short(float(error.mean()))}


def label_results(labels: Array, outputs: Array, names: Sequence[str]) -> list[dict[str, Any]]:
    """Of several labels at once, each: how many samples have it, recall, precision and F1 (None: neither occurs nor was given).

    >>> label_results(np.array([[True], [False]]), np.array([[1.0], [1.0]]), ["loop"])[0]
    {'label': 'loop', 'n': 1, 'recall': 1.0, 'precision': 0.5, 'f1': 0.6666666666666666}
    """
    guess = outputs > 0
    hits, given, true = (guess & labels).sum(0).tolist(), guess.sum(0).tolist(), labels.sum(0).tolist()
    return [
        {
            "label": names[i] if i < len(names) else i,
            "n": true[i],
            "recall": hits[i] / true[i] if true[i] else None,
            "precision": hits[i] / given[i] if given[i] else None,
            "f1": 2 * hits[i] / (given[i] + true[i]) if given[i] + true[i] else None,
        }
        for i in range(min(labels.shape[1], MOST_ENTRIES))
    ]


def token_results(labels: Array, answers: Array, names: Sequence[str]) -> list[dict[str, Any]]:
    """The tokens at which most predictions are wrong, the most first: how often each occurs, the share that is right, and what most
    of the wrong answers were.

    >>> labels, answers = np.array([[0, 0, 0, 0, 0, 1, 1, 1, 1, 1]]), np.array([[0, 0, 0, 0, 0, 0, 0, 0, 1, 1]])
    >>> token_results(labels, answers, ["a", "b"])[0]
    {'token': 1, 'name': 'b', 'n': 5, 'right': 0.4, 'instead': 'a'}
    """
    counted = labels != IGNORED
    true, guess = labels[counted].astype(np.int64), answers[counted].astype(np.int64)
    if not len(true):
        return []
    totals = np.bincount(true)
    right = np.bincount(true[true == guess], minlength=len(totals))
    tokens = np.flatnonzero(totals)
    worst = tokens[np.argsort(right[tokens] - totals[tokens], kind="stable")][:MOST_TOKENS]
    rows = list[dict[str, Any]]()
    for token in worst.tolist():
        wrong = guess[(true == token) & (guess != token)]
        instead = int(np.bincount(wrong).argmax()) if len(wrong) else None
        name = token_name(token, names)
        rows.append({
            "token": token, "name": name, "n": int(totals[token]), "right": float(right[token] / totals[token]),
            "instead": None if instead is None else token_name(instead, names),
        })  # fmt: skip
    return rows


_INVISIBLE = {" ": "space", "\n": "line end", "\t": "tab", "\r": "return", "": "nothing"}


def token_name(token: int, names: Sequence[str]) -> str:
    """What a token is called: by the vocabulary where there is one, else by its number.

    >>> token_name(0, [" ", "e"]), token_name(1, [" ", "e"]), token_name(7, [])
    ('space', 'e', 'token 7')
    """
    if not 0 <= token < len(names):
        return f"token {token}"
    return _INVISIBLE.get(names[token], names[token])


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
