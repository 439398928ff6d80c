"""The engines that can train on a device: the one list from which options, configurations and profiles take their names."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal, get_args

from fedfleet.core.errors import BadInput

EngineName = Literal["torch", "numpy", "mnn"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
# The module that an engine loads, the package that brings it, and the extra of FedFleet.
_PACKAGES = {"torch": ("torch", "PyTorch", "train"), "mnn": ("_mnncengine", "MNN", "mnn")}


def require_engine(name: str) -> None:
    """Refuse an engine whose package is not installed; nothing is loaded."""
    module, package, extra = _PACKAGES.get(name, ("", "", ""))
    if module and find_spec(module) is None:
        raise BadInput(f"the engine {name} needs the package {package}, which is not installed; pip install 'fedfleet[{extra}]'")
