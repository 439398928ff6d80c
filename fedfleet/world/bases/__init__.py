"""Databases of devices and states: canonical files, and loaders for published formats, chosen by a prefix.

devices.json  devices.csv  devices.npz  flhetbench:PATH  flash:PATH  fedscale:PATH  fsreal:  builtin:
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.fleet import DeviceTable, StateTable

# prefix -> module under fedfleet.world.bases; each has `devices(path)`, `states(path)` or both
LOADERS = {name: name for name in ("flhetbench", "flash", "fedscale", "flame", "fsreal", "builtin")}


def load_devices(where: str) -> DeviceTable:
    """The devices that a path or a prefixed name stands for."""
    return _loader(where, "devices")()


def load_states(where: str) -> StateTable:
    """The states that a path or a prefixed name stands for."""
    return _loader(where, "states")()


def _loader(where: str, what: str) -> Callable[[], Any]:
    prefix, colon, path = where.partition(":")
    if not colon and where in ("builtin", "fsreal"):  # a base that needs no path may go without its colon
        prefix, path = where, ""
    elif not colon:
        prefix, path = "canonical_files", where
    elif prefix not in LOADERS:
        raise BadInput(f"{where}: there is no base called {prefix!r}{suggest_name(prefix, LOADERS)}")
    load = getattr(import_module(f"fedfleet.world.bases.{prefix}"), what, None)
    if load is None:
        raise BadInput(f"{where}: the base {prefix!r} has no {what}")
    return lambda: load(path)
