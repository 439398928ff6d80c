"""The engines that can train on a device: the one list from which options, configurations and profiles take their names."""

from __future__ import annotations

from typing import Literal, get_args

EngineName = Literal["torch", "numpy"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
