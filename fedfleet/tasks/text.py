"""Tasks on text: the next character, after a window or at every place of it; the mood of a tweet."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fedfleet.core.bounds import Ge, Le
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Depth, Width, Words
from fedfleet.core.parts import Dataset
from fedfleet.tasks.data_files import Source, data_from
from fedfleet.tasks.narrow_models import units
from fedfleet.tasks.readers import leaf, texts
from fedfleet.tasks.readers.texts import WIDTH
from fedfleet.tasks.synthetic import synthetic_data, synthetic_text
from fedfleet.tasks.task import TaskRecipe, fit_task

LEAF_PLAYS = Source("LEAF's Shakespeare", leaf.places("leaf_shakespeare", "shakespeare"), leaf.read_shakespeare)


def char_lstm(
    *, hidden: Width = 256, stride: Count = 40, per_role: Count = 400, samples: Count | None = None, synthetic: bool = False
) -> TaskRecipe:
    """LEAF's next-character LSTM (819,920 parameters) on Shakespeare's roles, 80 characters at a time.

    LEAF's JSON where it is there, else the roles' texts: a window every `stride` characters, at most `per_role` a role.
    """
    sources = (LEAF_PLAYS, _roles(stride, per_role))
    return _next_character("char_lstm", sources, hidden, samples, synthetic)


def shakespeare_lstm(
    *, hidden: Width = 256, stride: Count = 40, per_role: Count = 400, samples: Count | None = None, synthetic: bool = False
) -> TaskRecipe:
    """The same LSTM on the texts of Shakespeare's roles: a window every `stride` characters, at most `per_role` a role."""
    return _next_character("shakespeare_lstm", (_roles(stride, per_role),), hidden, samples, synthetic)


def text_gpt(*, width: Width = 32, depth: Depth = 2, heads: Width = 4, window: Annotated[int, Ge(2), Le(1024)] = 32) -> TaskRecipe:
    """The next character at every place, by a small causal transformer on English prose that ships with scikit-learn.

    Windows that do not overlap; each of the 14 texts is an owner.
    """

    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.attention import Gpt

        # A narrower one has as many heads, each of them narrower.
        return Gpt(classes, shape[0], width=units(width, scale, heads), depth=depth, heads=heads)

    check_heads(width, heads)
    return fit_task("text_gpt", partial(texts.package_texts, window), net)


def text_lstm(*, hidden: Width = 64, layers: Depth = 1, window: Annotated[int, Ge(2), Le(1024)] = 32) -> TaskRecipe:
    """The next character at every place, by an LSTM: the texts of `text_gpt`."""

    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.small import EMBEDDING, CharLstm

        del shape  # any length will do
        embedding, width = units(2 * EMBEDDING, scale), units(hidden, scale)
        return CharLstm(classes, embedding=embedding, hidden=width, layers=layers, every_place=True)

    return fit_task("text_lstm", partial(texts.package_texts, window), net)


def shakespeare_gpt(
    *,
    width: Width = 64,
    depth: Depth = 2,
    heads: Width = 4,
    window: Annotated[int, Ge(2), Le(1024)] = 80,
    per_role: Count = 400,
    samples: Count | None = None,
    synthetic: bool = False,
) -> TaskRecipe:
    """The next character at every place, by a small causal transformer on the texts of Shakespeare's roles, each an owner."""

    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.attention import Gpt

        # A narrower one has as many heads, each of them narrower.
        return Gpt(classes, shape[0], width=units(width, scale, heads), depth=depth, heads=heads)

    check_heads(width, heads)

    def read(path: Path, limit: int | None) -> Dataset:
        del limit  # the window decides how many there are
        return texts.read_role_sequences(path, window=window, most=per_role)

    source = Source("Shakespeare by role", ("shakespeare/roles.json.gz",), read)

    def make_synthetic(limit: int | None) -> Dataset:
        return texts.as_sequences(synthetic_text("shakespeare", window, len(texts.LETTERS))(limit))

    return fit_task("shakespeare_gpt", data_from((source,), make_synthetic, samples=samples, synthetic=synthetic), net)


def check_heads(width: int, heads: int) -> None:
    """Refuse a width that heads cannot share."""
    if width % heads:
        raise BadInput(f"task: heads = {heads} must divide width = {width}; use width = {heads * -(-width // heads)}")


def twitter_logreg(*, words: Words = 0, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """Logistic regression on 50-d GloVe vectors of tweets (LEAF's Sentiment140): happy or not, by user.

    `words` 0 takes the mean of a tweet's word vectors; n puts the first n vectors in a row, as FS-REAL's text says.
    """

    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.small import logistic_regression

        del scale  # it has no hidden units
        return logistic_regression(shape[0], classes)

    source = Source("LEAF's Sentiment140", leaf.places("sent140", "twitter"), partial(leaf.read_twitter, words=words))
    make_synthetic = synthetic_data("twitter", (max(words, 1) * WIDTH,), 2)
    return fit_task("twitter_logreg", data_from((source,), make_synthetic, samples=samples, synthetic=synthetic), net)


def _roles(stride: int, per_role: int) -> Source:
    return Source(
        "Shakespeare by role",
        ("shakespeare/roles.json.gz",),
        lambda path, samples: texts.read_roles(path, stride=stride, most=per_role),
    )


def _next_character(name: str, sources: tuple[Source, ...], hidden: int, samples: int | None, synthetic: bool) -> TaskRecipe:
    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.small import EMBEDDING, CharLstm

        del shape  # any length will do
        return CharLstm(classes, embedding=units(EMBEDDING, scale), hidden=units(hidden, scale))

    make_synthetic = synthetic_text("shakespeare", texts.WINDOW, len(texts.LETTERS))
    return fit_task(name, data_from(sources, make_synthetic, samples=samples, synthetic=synthetic), net)
