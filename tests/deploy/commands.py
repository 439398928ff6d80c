"""The command line as deployments use it: every word of ours must be one that the program knows."""

from __future__ import annotations

from typing import Any

from fedfleet.app.cli.commands import group_command
from fedfleet.app.cli.main import FEDFLEET


def check_words(words: list[str]) -> dict[str, Any]:
    """Parse `fedfleet WORDS` without doing anything; the values of its options, or an error as people would see it."""
    group: Any = group_command("fedfleet", FEDFLEET)
    verb = group.get_command(None, words[0])
    assert verb is not None, f"there is no verb {words[0]}"
    return verb.make_context(words[0], list(words[1:])).params
