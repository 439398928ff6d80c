"""FedFleet: cross-device federated learning on the devices that people really own.

The public names load on first use, so that importing the package stays instant on a watch as on a workstation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# name -> (module, attribute)
_PUBLIC = {
    "Result": ("fedfleet.app.api", "Result"),
    "load": ("fedfleet.app.api", "load"),
    "run": ("fedfleet.app.api", "run"),
    "BadInput": ("fedfleet.core.errors", "BadInput"),
    "RunFailed": ("fedfleet.core.errors", "RunFailed"),
    "simulate": ("fedfleet.runtime.simulate", "simulate"),
    "register": ("fedfleet.core.registry", "register"),
}

__all__ = ["BadInput", "Result", "RunFailed", "__version__", "load", "register", "run", "simulate"]

if TYPE_CHECKING:
    from fedfleet.app.api import Result, load, run
    from fedfleet.core.errors import BadInput, RunFailed
    from fedfleet.core.registry import register
    from fedfleet.runtime.simulate import simulate


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _PUBLIC:
        raise AttributeError(f"module 'fedfleet' has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
