"""Texts as windows of characters: at every place, the label is the character that follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.records import Ints
from fedfleet.tasks.user_data.columns import Column

MOST_CONTEXT = 1024


@dataclass(frozen=True, slots=True)
class CharacterWindows:
    """Windows of tokens, and the same ones a character later; whose each window is; the characters behind the tokens."""

    x: Ints
    y: Ints
    owner: Ints
    owners: tuple[str, ...]
    vocabulary: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def character_windows(where: str, texts: Mapping[str, str], context: int) -> CharacterWindows:
    """Each text cut into windows side by side, of `context` characters; what is left at its end is part of no window.

    >>> found = character_windows("notes", {"ann": "abab", "bob": "a"}, 3)
    >>> found.x.tolist(), found.y.tolist(), found.vocabulary, found.owners
    ([[0, 1, 0]], [[1, 0, 1]], ('a', 'b'), ('ann',))
    """
    windows, owners = list[Ints](), list[str]()
    for name, text in texts.items():
        characters = np.frombuffer(text.encode("utf-32-le", "replace"), "<u4").astype(np.int64)
        if len(characters) > context:
            owners.append(name)
            windows.append(np.lib.stride_tricks.sliding_window_view(characters, context + 1)[::context])
    if not windows:
        longest = max((len(text) for text in texts.values()), default=0)
        raise BadInput(
            f"data: no text in {where} is longer than context = {context} characters (the longest has {longest:,}); use a smaller "
            f"context"
        )
    known, tokens = np.unique(np.concatenate(windows), return_inverse=True)
    both = tokens.reshape(-1, context + 1).astype(np.int64)
    owner = np.repeat(np.arange(len(owners)), [len(w) for w in windows])
    short = len(texts) - len(owners)
    count = f"{short:,} of {len(texts):,} texts in {where}"
    warning = f"data: {count} have no more than {context} characters and are left out; use a smaller context"
    return CharacterWindows(
        both[:, :-1].copy(), both[:, 1:].copy(), owner, tuple(owners), tuple(map(chr, known.tolist())), (warning,) if short else ()
    )


def texts_by_owner(text: Column, owner: Column | None) -> dict[str, str]:
    """Everything that each owner wrote, line by line; one text where nobody says whose it is."""
    names: tuple[str, ...] = text.words
    lines: dict[str, list[str]] = {}
    codes = np.zeros(len(text.values), np.int64) if owner is None else owner.values
    people: tuple[str, ...] = ("",) if owner is None else owner.words
    for code, line in zip(codes.tolist(), text.values.tolist(), strict=True):
        if line >= 0 and code >= 0:
            lines.setdefault(people[code], []).append(names[line])
    return {name: "\n".join(lines[name]) for name in sorted(lines)}
