"""Folders of pictures: CLIENT/CLASS/picture, or CLASS/picture where nobody says who made them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.trees import Array
from fedfleet.tasks.data_checks import error_line
from fedfleet.tasks.readers.png import SIGNATURE, decode_png
from fedfleet.tasks.user_data.array_files import array_samples
from fedfleet.tasks.user_data.raw_samples import RawSamples

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
_CURE = "give a folder for each client, in it a folder for each class, in it the pictures: CLIENT/CLASS/picture.png"


def holds_pictures(path: Path) -> bool:
    """Are there pictures one or two folders below?"""
    return any(True for _ in _pictures(path))


def _pictures(path: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """The pictures, and the folders in which each lies."""
    for file in sorted(path.rglob("*")):
        folders = file.relative_to(path).parts[:-1]
        if file.suffix.lower() in SUFFIXES and file.is_file() and not any(part.startswith(".") for part in (*folders, file.name)):
            yield file, folders


def read_image_folder(path: Path) -> RawSamples:
    """Pictures with the channels first and values from 0 to 1; a class is called as its folder, and an owner too."""
    found = list(_pictures(path))
    depths = {len(folders) for _, folders in found}
    odd = next((file for file, folders in found if len(folders) not in (1, 2) or len(folders) != len(found[0][1])), None)
    if odd is not None:
        raise BadInput(f"data: the picture {odd} is not as deep in folders as others are, or too deep; {_CURE}")
    pictures = _one_size([(file, _decoded(file)) for file, _ in found])
    x = np.moveaxis(np.stack(pictures), 3, 1).astype(np.float32) / np.float32(255)
    classes = [folders[-1] for _, folders in found]
    owners = [folders[0] for _, folders in found] if depths == {2} else None
    warning = f"data: {path} has one level of folders, which are the classes; nobody says who made a picture; {_CURE}"
    samples = array_samples(str(path), x, np.array(classes, object), owners, names=("picture", "class"))
    if owners is None:
        from dataclasses import replace

        return replace(samples, warnings=(warning,))
    return samples


def _one_size(pictures: list[tuple[Path, Array]]) -> list[Array]:
    """Pictures of one height and width; grey ones become colour where others have colour."""
    first, size = pictures[0][0], pictures[0][1].shape[:2]
    for file, pixels in pictures:
        if pixels.shape[:2] != size:
            (height, width), (h, w) = pixels.shape[:2], size
            raise BadInput(
                f"data: the picture {file} has {width} x {height} pixels, but {first} has {w} x {h}; bring all pictures to one "
                f"size first"
            )
    channels = max(pixels.shape[2] for _, pixels in pictures)
    return [np.repeat(p, channels, 2) if p.shape[2] < channels else p for _, p in pictures]


def _decoded(file: Path) -> Array:
    """A picture as bytes, [height, width, 1 or 3]: PNG by our own reader, everything else, and rarer PNG, by Pillow."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BadInput(f"data: the picture {file} cannot be read: {error.strerror or error}; check its permissions") from None
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
        raise BadInput(f"data: the picture {file} {why}, and Pillow, which reads more, is not installed; install pillow") from None
    try:
        with Image.open(io.BytesIO(content)) as image:
            grey = image.mode in ("1", "L", "I", "I;16", "LA")
            pixels = np.asarray(image.convert("L" if grey else "RGB"))
    # Pillow has exceptions of its own for bombs, and plain SyntaxError for broken chunks.
    except Exception as error:
        raise BadInput(
            f"data: the picture {file} cannot be read: {own_error or error_line(error)}; replace it or delete it"
        ) from None
    return pixels[:, :, None] if pixels.ndim == 2 else pixels
