"""The spec: one TOML file, checked against the signatures of the builders it names, with every default filled in."""

from fedfleet.app.spec.resolution import resolve
from fedfleet.app.spec.spec_file import apply_overrides, load_spec, plain_table, read_table, set_values, spec_table
from fedfleet.app.spec.spec_record import Spec

__all__ = ["Spec", "apply_overrides", "load_spec", "plain_table", "read_table", "resolve", "set_values", "spec_table"]
