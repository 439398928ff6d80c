"""What a spec from the page may not do: read files outside the folder of the runs, use another machine, bring code of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedfleet.core.errors import BadInput
from fedfleet.world.bases import LOADERS

_PATH_KEYS = ("path", "base", "backbone")  # that take a name or a file
_BY_NAME = ("builtin", "fsreal")  # bases that need no file
_PATH_MARKS = ("/", "\\", "~", "..", "\0")
_REMOTE_KEYS = ("run.ray_address",)  # that name another machine


def refuse_foreign(table: Mapping[str, Any], root: Path, base_folder: Path) -> None:
    """Refuse a resolved spec that reads files outside `root`, names another machine, or brings code of its own.

    Whoever has the page may start runs, not read the disk: a file's content could be told from the errors about it. `here` is where
    relative paths begin.
    """
    here = "a run that is started on this page"
    for key, value in _strings(table):
        if key == "task.use" and value == "own":
            raise BadInput(f"{key}: {here} must use a registered task; run a model of your own from Python")
        if key in _REMOTE_KEYS or (key == "run.execute" and value == "ray"):
            raise BadInput(f"{key}: {here} cannot use a cluster; start this run with: fedfleet run SPEC --ray-address ..")
        if _is_file(key, value, base_folder) and not _is_inside(value, root, base_folder):
            raise BadInput(
                f"{key}: {value!r} is outside the folder of the runs, and this page may read files only there; "
                "copy the file there and give its full path, or start this run with: fedfleet run SPEC"
            )


def _is_file(key: str, value: str, base_folder: Path) -> bool:
    if any(mark in value for mark in _PATH_MARKS):
        return True
    if key.rpartition(".")[2] not in _PATH_KEYS:
        return False
    prefix, colon, path = value.partition(":")
    if colon and prefix in LOADERS:
        return bool(path)  # without one, a loader reads its published files, wherever those were put
    return bool(colon) or "." in value or (value not in _BY_NAME and (base_folder / value).exists())


def _is_inside(value: str, root: Path, base_folder: Path) -> bool:
    prefix, _, path = value.partition(":")
    parts = (path if prefix in LOADERS else value).split("#")  # some loaders take two files: TIMERS#IDS
    try:
        return all((base_folder / part).resolve().is_relative_to(root.resolve()) for part in parts)
    except (OSError, ValueError, RuntimeError):
        return False


def _strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _strings(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from _strings(inner, f"{key}[{i}]")
    elif isinstance(value, str):
        yield key, value
