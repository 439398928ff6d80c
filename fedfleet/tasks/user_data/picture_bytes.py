"""Pictures as arrays: PNG by our own reader, everything else by Pillow where it is installed."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.trees import Array
from fedfleet.tasks.data_checks import error_line
from fedfleet.tasks.readers.png import SIGNATURE, decode_png


def decode_picture(content: bytes, where: str) -> Array:
    """A picture as bytes 0..255, [height, width, 1 or 3]; `where` names it in a refusal."""
    own_error = None
    if content.startswith(SIGNATURE):
        try:
            return decode_png(content)
        # Damaged bytes raise whatever struct, zlib and numpy do.
        except Exception as error:
            own_error = error_line(error)
    try:
        from PIL import Image  # pyright: ignore[reportMissingImports]
    except ImportError:
        why = f"cannot be read ({own_error})" if own_error else "is no PNG"
        raise BadInput(f"data: the picture {where} {why}, and Pillow, which reads more, is not installed; install pillow") from None
    try:
        with Image.open(io.BytesIO(content)) as image:
            grey = image.mode in ("1", "L", "I", "I;16", "LA")
            pixels = np.asarray(image.convert("L" if grey else "RGB"))
    # Pillow has exceptions of its own for bombs, and plain SyntaxError for broken chunks.
    except Exception as error:
        raise BadInput(
            f"data: the picture {where} cannot be read: {own_error or error_line(error)}; replace it or delete it"
        ) from None
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def stack_pictures(pictures: Sequence[tuple[str, Array]]) -> Array:
    """Pictures of one size, each with its name, as float32 [n, channels, height, width] from 0 to 1; where some are in colour,
    grey ones become colour.

    >>> stack_pictures([("a", np.full((2, 3, 1), 255, np.uint8)), ("b", np.zeros((2, 3, 3), np.uint8))]).shape
    (2, 3, 2, 3)
    """
    first, size = pictures[0][0], pictures[0][1].shape[:2]
    for name, pixels in pictures:
        if pixels.shape[:2] != size:
            (height, width), (h, w) = pixels.shape[:2], size
            raise BadInput(
                f"data: the picture {name} has {width} x {height} pixels, but {first} has {w} x {h}; bring all pictures to one "
                f"size first"
            )
    channels = max(pixels.shape[2] for _, pixels in pictures)
    alike = [np.repeat(p, channels, 2) if p.shape[2] < channels else p for _, p in pictures]
    return np.moveaxis(np.stack(alike), 3, 1).astype(np.float32) / np.float32(255)
