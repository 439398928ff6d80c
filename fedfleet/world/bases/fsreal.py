"""FS-REAL's device pool as a base: its 72 configurations, weakest first."""

from __future__ import annotations

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import DeviceTable
from fedfleet.world.samplers.pool72 import configurations


def devices(path: str) -> DeviceTable:
    """The 72 configurations; there is no file to name."""
    if path:
        raise BadInput(f"fsreal: takes no path, but got {path!r}")
    return configurations()
