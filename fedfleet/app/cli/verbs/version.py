"""`fedfleet version`."""

from __future__ import annotations

from fedfleet import __version__
from fedfleet.app.terminal.answers import AsJson, answer


def version(as_json: AsJson = False) -> None:
    """Print the version."""
    answer({"version": __version__}, as_json, lambda a: f"fedfleet {a['version']}")
