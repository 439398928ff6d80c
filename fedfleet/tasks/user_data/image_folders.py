"""Folders of pictures: CLIENT/CLASS/picture, or CLASS/picture where nobody says who made them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.trees import Array
from fedfleet.tasks.user_data.array_files import array_samples
from fedfleet.tasks.user_data.picture_bytes import decode_picture, stack_pictures
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
    x = stack_pictures([(str(file), _decode(file)) for file, _ in found])
    classes = [folders[-1] for _, folders in found]
    owners = [folders[0] for _, folders in found] if depths == {2} else None
    warning = f"data: {path} has one level of folders, which are the classes; nobody says who made a picture; {_CURE}"
    samples = array_samples(str(path), x, np.array(classes, object), owners, names=("picture", "class"))
    if owners is None:
        return replace(samples, warnings=(warning,))
    return samples


def _decode(file: Path) -> Array:
    try:
        return decode_picture(file.read_bytes(), str(file))
    except OSError as error:
        raise BadInput(f"data: the picture {file} cannot be read: {error.strerror or error}; check its permissions") from None
