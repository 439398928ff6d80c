"""The pages as tests read them: fenced blocks with their language, their marks and their place.

Three marks, each a comment in the line above a fence: `<!-- file: NAME -->` (the reader saves this block as NAME), `<!-- runs:
soak -->` (takes long: executed by make soak alone), `<!-- not run: REASON -->` (commands that cannot be executed here).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MADE = {"docs/reference/parts.md", "docs/reference/commands.md", "docs/reference/python.md"}
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "studies").glob("*.md")),
    ROOT / "examples/deploy/README.md",
]
_FENCE = re.compile(
    r"^(?:<!-- (?P<mark>file|runs|not run): (?P<value>.*?) -->\n+)?```(?P<language>[^\n]*)\n(?P<text>.*?)^```$",
    re.M | re.S,
)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    place: str
    language: str
    text: str
    mark: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """One command, and what it prints as far as the page says so."""

    place: str
    line: str
    said: str = ""
    script: bool = False


def blocks_of(text: str, name: str) -> list[Block]:
    """All fenced blocks of a page's text."""
    result: list[Block] = []
    for m in _FENCE.finditer(text):
        place = f"{name}:{text.count(chr(10), 0, m.start('language')) + 1}"
        result.append(Block(place, m["language"].strip(), m["text"], m["mark"] or "", (m["value"] or "").strip()))
    return result


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    return blocks_of(page.read_text(), name_of(page))


def commands_of(block: Block) -> list[Command]:
    """With `$ ` before commands all else is what they print; without, the whole block is one script."""
    if not re.search(r"^\$ ", block.text, re.M):
        return [Command(block.place, block.text, script=True)]
    result: list[Command] = []
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        lines = part.splitlines()
        last = next(i for i, line in enumerate(lines) if not line.endswith("\\"))
        result.append(Command(block.place, "\n".join(lines[: last + 1]), "\n".join(lines[last + 1 :])))
    return result


def is_run(block: Block, *, soak: bool) -> bool:
    return block.language == "console" and (soak or (block.mark, block.value) != ("runs", "soak"))
