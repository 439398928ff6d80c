"""Files of a run: written whole or not at all, trees sealed by their own hash, private where their folder is."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from fedfleet.core.errors import RunFailed
from fedfleet.core.json_text import parse_json
from fedfleet.core.trees import Array, Tree, content_hash
from fedfleet.store.file_modes import creation_mode


class DamagedFile(RunFailed):
    """A file that is not what was written."""


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves either the old content or the new."""
    draft = path.with_name(path.name + ".part")
    try:
        mode = creation_mode(path.parent)
        with open(draft, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise RunFailed(f"{path} cannot be written ({error}); check disk space and permissions, then resume") from error


def save_tree(path: Path, tree: Mapping[str, Array], meta: Mapping[str, Any] | None = None) -> None:
    """A tree, and facts about it, as one safetensors file that holds its own hash."""
    arrays = {n: np.asarray(v, order="C") for n, v in tree.items()}
    about = dict(meta or {})
    # One key, since the order of several is not the same every time.
    write_atomically(path, save(arrays, {"fedfleet": json.dumps({"seal": _seal(about, arrays), "meta": about})}))


def load_tree(path: Path) -> tuple[Tree, dict[str, Any]]:
    """The inverse of `save_tree`; `DamagedFile` if one bit is not as it was written."""
    try:
        with safe_open(path, "np") as file:
            header = parse_json((file.metadata() or {})["fedfleet"])
            tree = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        seal, meta = header["seal"], header["meta"]
    except FileNotFoundError as error:
        raise DamagedFile(f"{path} is missing") from error
    except (OSError, SafetensorError, ValueError, TypeError, KeyError) as error:
        raise DamagedFile(f"{path} cannot be read: {error}") from error
    if seal != _seal(meta, tree):
        raise DamagedFile(f"{path} was changed after it was written: its content does not fit its seal")
    return tree, meta


def meta_of(path: Path) -> dict[str, Any]:
    """The facts in a file of `save_tree`, without its tensors; they are not checked against its seal."""
    with safe_open(path, "np") as file:
        return parse_json((file.metadata() or {})["fedfleet"])["meta"]


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _seal(about: Mapping[str, Any], tree: Mapping[str, Array]) -> str:
    return hashlib.sha256(f"{content_hash(tree)}|{json.dumps(about)}".encode()).hexdigest()
