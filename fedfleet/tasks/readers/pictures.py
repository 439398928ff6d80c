"""Pictures of any readable format, brought to one size."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.trees import Array
from fedfleet.tasks.readers.png import SIGNATURE, decode_png

BRIGHTNESS = (0.299, 0.587, 0.114)  # of red, green and blue to the eye
SUFFIXES = (".png", ".npy", ".jpg", ".jpeg")


def read_pictures(paths: Iterable[Path], side: int, channels: int) -> Array:
    """Pictures as float32 [n, channels, side, side] in [0, 1]; what cannot be read is named."""
    pictures: list[Array] = []
    for path in paths:
        try:
            pictures.append(fit_picture(decode(path.read_bytes()), side, channels))
        except (OSError, ValueError) as error:
            raise BadInput(f"the picture {path} cannot be read: {error}") from None
    return np.stack(pictures) if pictures else np.empty((0, channels, side, side), np.float32)


def decode(data: bytes) -> Array:
    """A picture as bytes 0..255, [height, width, 1 or 3], from the content of a .png, .npy or .jpg file."""
    if data.startswith(SIGNATURE):
        return decode_png(data)
    if data.startswith(b"\x93NUMPY"):
        array = np.load(io.BytesIO(data), allow_pickle=False)
        array = array[:, :, None] if array.ndim == 2 else array
        if array.ndim != 3 or array.shape[2] not in (1, 3) or array.dtype != np.uint8:
            raise ValueError(f"it holds {array.dtype} {list(array.shape)} instead of uint8 [height, width, 1 or 3]")
        return array
    if data.startswith(b"\xff\xd8"):
        return _jpeg(data)
    raise ValueError("unsupported format; use PNG, NPY or JPEG")


def fit_picture(picture: Array, side: int, channels: int) -> Array:
    """A picture [height, width, c] as float32 [channels, side, side] in [0, 1], squeezed to a square."""
    planes = resize(np.moveaxis(picture, 2, 0), side) * np.float32(1 / 255)
    if len(planes) == channels:
        return planes
    if channels == 1:
        return np.tensordot(np.array(BRIGHTNESS, np.float32), planes, 1)[None]
    return np.repeat(planes, channels, axis=0)


def resize(planes: Array, side: int) -> Array:
    """Images [.., height, width] as float32 [.., side, side]; each new pixel is the mean of the area that it covers."""
    down, across = _areas(planes.shape[-2], side), _areas(planes.shape[-1], side)
    return down @ planes.astype(np.float32) @ across.T


@cache
def _areas(old: int, new: int) -> Array:
    """[new, old]: which share of each new pixel each old pixel covers; rows add up to one."""
    edges = np.arange(new + 1) * (old / new)
    place = np.arange(old)
    overlap = np.minimum(edges[1:, None], place + 1) - np.maximum(edges[:-1, None], place)
    return (np.maximum(overlap, 0.0) * (new / old)).astype(np.float32)


def _jpeg(data: bytes) -> Array:
    try:
        from PIL import Image  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise BadInput(
            "the pictures are JPEG, which needs Pillow, and that is not installed; install pillow, or convert to PNG"
        ) from None
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def find_picture(bases: Sequence[Path], name: str) -> Path | None:
    """The file of this name in the first folder that has it, with one of the known endings if it names none."""
    for base in bases:
        for ending in ("", *SUFFIXES):
            path = base / f"{name}{ending}"
            if path.is_file():
                return path
    return None
