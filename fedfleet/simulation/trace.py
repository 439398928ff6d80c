"""FEDFLEET_TRACE=1: facts, outcomes and commands on standard error as they happen, one line each."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

import numpy as np

from fedfleet.core.records import Assignments, Roster, ServerState, Wave

_MAX_VALUES = 8  # of a long column, how many values


def tracer() -> Callable[[str, Iterable[Any]], None] | None:
    """What prints a trace, if the environment asks for one: it gets a word and the things that it is about."""
    if os.environ.get("FEDFLEET_TRACE", "") in ("", "0"):
        return None

    def show(word: str, things: Iterable[Any]) -> None:
        for thing in things:
            sys.stderr.write(f"fedfleet: {word} {format_line(thing)}\n")

    return show


def format_line(thing: Any) -> str:
    """A fact, outcome or command as one short line: long columns are cut, models and waves named only."""
    text = ", ".join(f"{f.name}={_short(getattr(thing, f.name))}" for f in fields(thing))
    return f"{type(thing).__name__}({text})"


def _short(value: Any) -> str:
    match value:
        case np.ndarray():
            cut = ", .." if len(value) > _MAX_VALUES else ""
            return f"[{', '.join(str(x) for x in value[:_MAX_VALUES].tolist())}{cut}]"
        case Wave():
            return f"tasks {value.first}-{value.first + len(value) - 1} of model {value.version}"
        case Roster() | Assignments():
            return f"{len(value.clients)} clients"
        case ServerState():
            return f"{len(value.params)} leaves"
        case tuple() if len(value) > _MAX_VALUES:
            return f"({len(value)} entries)"
        case tuple():
            return f"({', '.join(_short(x) for x in value)})"
        case dict() if not all(isinstance(v, float) for v in value.values()):
            return f"{{{', '.join(map(str, value))}}}"
        case _:
            text = repr(value)
            return text if len(text) <= 80 else f"{type(value).__name__}(..)"
