"""The spec: one TOML file, checked against the signatures of the builders it names, with every default filled in."""

from fedfleet.app.spec.resolution import resolve
from fedfleet.app.spec.spec_file import given_table, load_spec, plain, read_table, with_values, with_words
from fedfleet.app.spec.spec_record import Spec

__all__ = ["Spec", "given_table", "load_spec", "plain", "read_table", "resolve", "with_values", "with_words"]
