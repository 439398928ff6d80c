"""Warnings that point at the line of the user's script, however many of our own calls lie between."""

from __future__ import annotations

import sys
import warnings

_OURS = "fedfleet"


def warn_user(message: str) -> None:
    """Warn, at the first caller that is not FedFleet itself."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
