"""Numbers with a unit that a page states in its prose and tables."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = (
    r"%|x\b|times\b|points?\b|ms\b|s\b|min\b|h\b|days?\b|hours?\b|minutes?\b|seconds?\b|kB\b|MB\b|GB\b|KiB\b|MiB\b|GiB\b|"
    r"clients\b|methods\b|runs\b|people\b|seeds\b|fleets\b|journalled events\b|rounds\b"
)
_SAID = re.compile(
    rf"(?<![\w./-])(\d[\d,]*(?:\.\d+)?)(?: \([A-Za-z0-9]+\))?(?= ?(?:(?:to|and) \d[\d,.]*(?: \([A-Za-z0-9]+\))? ?)?(?:{_UNITS}))"
)


@dataclass(frozen=True, slots=True)
class Said:
    """A number, and the line that states it."""

    number: str
    line: str


def stated(text: str) -> list[Said]:
    """All of them, code and addresses left out."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"<!--.*?-->|`[^`\n]*`|\]\([^)]*\)", " ", text, flags=re.S)
    lines = [line for line in text.splitlines() if not line.startswith("    ")]
    return [Said(m[1], line.strip()) for line in lines for m in _SAID.finditer(line)]
