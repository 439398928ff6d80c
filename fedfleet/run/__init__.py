"""ACTS: runtimes and executors. Only here does anything wait, spawn, or read a clock.

The package shares its name with the public call `fedfleet.run(..)`, so it answers to being called, too.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # By name: nothing in here depends on the application, it only passes the public call on.
        return import_module("fedfleet.app.api").run(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
