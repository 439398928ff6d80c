"""COUNTS: every number that we publish is a function of the journal.

As a call, `fedfleet.measure(spec)`, it says how hard a fleet is.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    """The public call has the name of this package, and whichever is loaded first must not hide the other: so it can be called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """How hard is this fleet? See `help(fedfleet.app.api.measure.measure)`."""
        call = import_module("fedfleet.app.api.measure").measure
        return import_module("fedfleet").with_short_traceback(call)(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
