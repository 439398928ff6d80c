"""Tasks on text: the next character of a role, the mood of a tweet."""

from __future__ import annotations

from functools import partial
from typing import Any

from fedfleet.core.limits import Count, Width, Words
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
