"""LEAF's JSON: {"user_data": {USER: {"x": [..], "y": [..]}}}, in one file or in several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.tasks.readers.leaf import users_of
from fedfleet.tasks.user_data.array_files import UNREADABLE, array_samples
from fedfleet.tasks.user_data.raw_samples import RawSamples


def read_leaf(files: Sequence[Path]) -> RawSamples:
    """Everybody's samples; the owners are the users."""
    x, y, owners = list[Any](), list[Any](), list[str]()
    for path in files:
        try:
            for user, samples in users_of(path):
                if len(samples["x"]) != len(samples["y"]):
                    raise ValueError(f"user {user} has {len(samples['x'])} inputs and {len(samples['y'])} labels")
                x += samples["x"]
                y += samples["y"]
                owners += [user] * len(samples["y"])
        except (*UNREADABLE, RecursionError, AttributeError) as error:
            shape = '{"user_data": {USER: {"x": [..], "y": [..]}}}'
            raise BadInput(f"data: {path} cannot be read: {error}; LEAF files contain {shape}") from None
    where = str(files[0] if len(files) == 1 else files[0].parent)
    if not x:
        raise BadInput(f"data: {where} holds no samples; LEAF files contain inputs x and labels y for each user")
    if isinstance(x[0], str):
        raise BadInput(
            f"data: the inputs in {files[0]} are text; convert them into numbers first, or give a folder of texts, USER.txt"
        )
    lengths = [np.size(row) for row in x]
    odd = next((i for i, n in enumerate(lengths) if n != lengths[0]), None)
    if odd is not None:
        raise BadInput(
            f"data: an input of user {owners[odd]} has {lengths[odd]} numbers, but the first input has {lengths[0]}; give all "
            f"inputs the same "
            "length"
        )
    try:
        rows = np.asarray(x)
        if rows.dtype.kind == "O":  # null is a missing value
            rows = np.array([np.nan if v is None else v for v in rows.ravel().tolist()], np.float64).reshape(rows.shape)
    except (ValueError, TypeError):
        raise BadInput(f"data: the inputs in {files[0]} are not rows of numbers of one shape; correct them") from None
    return array_samples(where, rows[:, None] if rows.ndim == 1 else rows, y, owners)
