"""The spec: one TOML file, checked against the signatures of the builders it names, with every default filled in.

The names load on first use: a device checks tables of parts here, and reads no specs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedfleet.app.spec.resolution import resolve
    from fedfleet.app.spec.spec_file import apply_overrides, load_spec, plain_table, read_table, set_values, spec_table
    from fedfleet.app.spec.spec_record import Spec

_HOME = {"resolve": "resolution", "Spec": "spec_record"} | dict.fromkeys(
    ("apply_overrides", "load_spec", "plain_table", "read_table", "set_values", "spec_table"), "spec_file"
)

__all__ = ["Spec", "apply_overrides", "load_spec", "plain_table", "read_table", "resolve", "set_values", "spec_table"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"fedfleet.app.spec.{_HOME[name]}"), name)
    globals()[name] = value
    return value
