"""Taking a report in: what came is decoded and checked, before anybody is asked whether it is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fedfleet.core.codec import Codec
from fedfleet.core.container import view_tree_and_array
from fedfleet.core.errors import Refused
from fedfleet.core.registry import builder
from fedfleet.core.trees import Array, Tree, tree_nbytes
from fedfleet.network.frontend.partial_sums import FoldLayout, refusal


class DecodedReport(NamedTuple):
    """What a report says: its update, and how many bytes that is; or why it cannot be folded.

    `whole` is the update as one array, leaf after leaf by name, where it came so.
    """

    tree: Tree
    nbytes: int
    fault: str = ""
    flat_update: Array | None = None


EMPTY_REPORT = DecodedReport({}, 0)


def codec_recipe(codec: Codec) -> list[dict[str, Any]]:
    """A codec as names and settings, from which another process makes it again."""
    return [{"use": part.name, **dict(part.settings)} for part in (codec.parts or (codec,))]


def codec_from(recipe: Sequence[dict[str, Any]]) -> Codec:
    """The inverse of `recipe_of`."""
    from fedfleet.learn.codecs.chain import chain

    parts = [builder("codecs", part["use"])(**{n: v for n, v in part.items() if n != "use"}) for part in recipe]
    codec = chain(parts)
    assert codec is not None
    return codec


def decode_report(
    layout: FoldLayout, codec: Codec | None, payload: memoryview, weight: float, *, check: bool = True
) -> DecodedReport:
    """Decode a report and check it as a fold would; without `looks`, whoever folds will (it decodes by itself)."""
    if not check:
        return DecodedReport({}, len(payload))
    try:
        if codec is None:
            tree, flat_update = view_tree_and_array(payload) if len(payload) else ({}, None)
        else:
            from fedfleet.learn.codecs.messages import decode_bytes

            tree, flat_update = decode_bytes(codec, bytes(payload), layout.like), None
    except Refused as error:
        return DecodedReport({}, len(payload), str(error))
    nbytes = tree_nbytes(tree) if codec is None else len(payload)
    return DecodedReport(tree, nbytes, refusal(layout, tree, weight, flat_update) or "", flat_update)
