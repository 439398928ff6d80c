"""The spec: one TOML file, checked against the signatures of the builders it names, with every default filled in."""

from fedfleet.app.spec.reading import given_table, load_spec, plain, read_table, with_values, with_words
from fedfleet.app.spec.record import Spec
from fedfleet.app.spec.resolving import resolve

__all__ = ["Spec", "given_table", "load_spec", "plain", "read_table", "resolve", "with_values", "with_words"]
