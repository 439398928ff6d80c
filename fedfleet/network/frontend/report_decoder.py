"""Taking a report in: what came is decoded and checked, before anybody is asked whether it is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fedfleet.core.codec import Codec
from fedfleet.core.container import viewed_whole
from fedfleet.core.errors import Refused
from fedfleet.core.registry import builder
from fedfleet.core.trees import Array, Tree, tree_nbytes
from fedfleet.network.frontend.partial_sums import FoldSheet, refusal


class Taken(NamedTuple):
    """What a report says: its update, and how many bytes that is; or why it cannot be folded.

    `whole` is the update as one array, leaf after leaf by name, where it came so.
    """

    tree: Tree
    nbytes: int
    fault: str = ""
    whole: Array | None = None


NOTHING = Taken({}, 0)


def recipe_of(codec: Codec) -> list[dict[str, Any]]:
    """A codec as names and settings, from which another process makes it again."""
    return [{"use": part.name, **dict(part.settings)} for part in (codec.parts or (codec,))]


def codec_from(recipe: Sequence[dict[str, Any]]) -> Codec:
    """The inverse of `recipe_of`."""
    from fedfleet.learn.codecs.chain import chain

    parts = [builder("codecs", part["use"])(**{n: v for n, v in part.items() if n != "use"}) for part in recipe]
    made = chain(parts)
    assert made is not None
    return made


def taken(sheet: FoldSheet, codec: Codec | None, payload: memoryview, weight: float, *, looks: bool = True) -> Taken:
    """Decode a report and check it as a fold would; without `looks`, whoever folds will (it decodes by itself)."""
    if not looks:
        return Taken({}, len(payload))
    try:
        if codec is None:
            tree, whole = viewed_whole(payload) if len(payload) else ({}, None)
        else:
            from fedfleet.learn.codecs.messages import received

            tree, whole = received(codec, bytes(payload), sheet.like), None
    except Refused as wrong:
        return Taken({}, len(payload), str(wrong))
    nbytes = tree_nbytes(tree) if codec is None else len(payload)
    return Taken(tree, nbytes, refusal(sheet, tree, weight, whole) or "", whole)
