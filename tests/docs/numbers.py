"""Numbers that a page claims, and what the page itself shows for them: figures with a unit, decimals, and cells of tables.

No claims are numbers inside code, addresses and names (`Dirichlet(0.5)`, Python 3.11, Eq. 3), years, first cells of rows, and
counts of what nobody measures (3 steps). What an executed command prints on the page is a source; so is, for amounts that somebody
sets (a deadline of 60 s), what the page's specs, programs and commands say, which tests read too. A text block that nobody executes
claims what it says with a unit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.docs.pages import Block, blocks_of, commands_of

_OUTCOMES = r"%|x(?=[\s.,;:)|]|$)|times\b|points?\b"
_AMOUNTS = (
    r"(?:ms|s|min|h|kB|MB|GB|KiB|MiB|GiB|kbit|Mbit|bit)(?:/s)?\b|(?:milli)?seconds?\b|minutes?\b|hours?\b|days?\b|weeks?\b|"
    r"W\b|watts?\b|joules?\b|g/kWh|clients\b|devices\b|methods\b|runs\b|people\b|seeds\b|fleets\b|"
    r"journalled events\b|rounds\b|tasks\b|bytes\b|characters\b|samples\b|reports\b|classes\b|versions\b|models\b|trials\b|files\b"
)
_ONE = r"[-+]?\d[\d,]*(?:\.\d+)?(?<!,)"
_ASIDE = r"(?: \([A-Za-z0-9]+\))?"
# 1.8 h; 14 (LSTM) to 250 (perceptron) times; 3, 4 and 8 points: the unit of the last is the unit of all.
_SERIES = re.compile(
    rf"(?<![\w.,/(@-])(?:about |up to )?(?P<all>{_ONE}{_ASIDE}(?:(?:, | and | to | or |, and | / | ± |-){_ONE}{_ASIDE})*) ?"
    rf"(?:(?P<outcome>{_OUTCOMES})|(?P<amount>{_AMOUNTS}))"
)
_DECIMAL = re.compile(r"(?<![\w.,/(@-])[-+]?(?:\d[\d,]*)?\.\d+(?!\w|\.\d|,\d)")
_NAMED = re.compile(
    r"\b(?:Python|TLS|HTTP|torch|CUDA|Eq\.|Eqs\.|Table|Tables|Fig\.|Figure|Theorem|[Ss]ections?|Apache|semver)[ -]\(?\d[\d.]*\)?"
)
_CELL = re.compile(rf"[-+±~]?\s*{_ONE}(?:\s*(?:%|±|,|;|/|to|and|s|h)\s*(?:[-+]?{_ONE})?)*\s*")
_POINT = re.compile(r"\s*([-*]|\d+\.) ")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?<!,)|(?<![\w])\.\d+")


@dataclass(frozen=True, slots=True)
class Said:
    """A number, the sentence or row that states it, and whether it is an outcome (a share, a ratio, points)."""

    number: str
    sentence: str
    outcome: bool = False


def value(text: str) -> float:
    return float(text.replace(",", ""))


def plain(text: str) -> str:
    """A page's words on one line: no comments and addresses, and code without its digits."""
    text = re.sub(r"<!--.*?-->|\]\([^)]*\)", "", text, flags=re.S)
    text = re.sub(r"`[^`\n]*`", lambda code: re.sub(r"\d", "#", code[0]), text)
    return re.sub(r"\s+", " ", re.sub(r"[\[*]", "", text)).strip()


def bare(passage: str) -> str:
    """A passage as claims are looked for in it: without code, and without numbers that are part of a name."""
    return _NAMED.sub(" ", plain(passage))


def passages(text: str) -> list[str]:
    """Paragraphs, points of lists and rows of tables, without fenced and indented code."""
    return _parted(text)[0]


def indented(text: str) -> list[str]:
    """The lines of a page's indented code."""
    return _parted(text)[1]


def _parted(text: str) -> tuple[list[str], list[str]]:
    """The passages of a page, and the lines of its indented code."""
    text = re.sub(r"<!--.*?-->", "", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), flags=re.S)
    result: list[str] = []
    code: list[str] = []
    fresh, inside = True, False
    for line in text.splitlines():
        if not line.strip():
            fresh = True
            continue
        of_list = bool(result) and _POINT.match(result[-1]) is not None
        inside = line.startswith("    ") and (inside or (fresh and not of_list))
        if inside:
            code.append(line)
        elif fresh or line.startswith(("|", "#")) or _POINT.match(line) or result[-1].startswith("#"):
            result.append(line)
        else:
            result[-1] += "\n" + line
        fresh = False
    return result, code


def stated(text: str) -> list[Said]:
    """All claims of a page."""
    result: list[Said] = []
    prose, code = _parted(text)
    for passage in prose:
        if passage.startswith("|"):
            result += _of_cells(bare(passage))
        else:
            result += [said for one in re.split(r"(?<=[.;!?])\s+(?=[^a-z]|$)", bare(passage)) for said in _of_sentence(one)]
    shown = [b.text for b in blocks_of(text, "") if b.language in ("text", "") and not b.mark]
    for line in [*code, *"".join(shown).splitlines()]:
        result += [said for _, said in _with_unit(line.strip())]
    return result


def _of_cells(row: str) -> list[Said]:
    first, *others = [cell.strip() for cell in row.strip("|").split("|")]
    result = [Said(said.number, row, said.outcome) for said in _of_sentence(first)]
    for cell in others:
        if _CELL.fullmatch(cell):
            result += [Said(n, row, "%" in cell) for n in NUMBER.findall(cell)]
        else:
            result += [Said(said.number, row, said.outcome) for said in _of_sentence(cell)]
    return result


def _of_sentence(sentence: str) -> list[Said]:
    result = _with_unit(sentence)
    there = {at for at, _ in result}
    for m in _DECIMAL.finditer(sentence):
        at = m.start() + (m[0][0] in "-+")
        if at not in there:
            result.append((at, Said(m[0].lstrip("-+"), sentence)))
    return [said for _, said in sorted(result, key=lambda one: one[0])]


def _with_unit(sentence: str) -> list[tuple[int, Said]]:
    return [
        (m.start("all") + n.start(), Said(n[0], sentence, bool(m["outcome"])))
        for m in _SERIES.finditer(sentence)
        for n in NUMBER.finditer(re.sub(r"\([A-Za-z0-9]+\)", lambda aside: " " * len(aside[0]), m["all"]))
    ]


def printed(blocks: list[Block], *, outcomes: bool) -> list[float]:
    """Numbers that commands print on a page, which executing them compares: shares and points, or all others."""
    texts = [command.said for block in blocks if block.language == "console" for command in commands_of(block)]
    result = [(m[0], m[1]) for text in texts for m in re.finditer(rf"(?:{NUMBER.pattern})(?: (%|points))?", text)]
    return [value(NUMBER.findall(number)[0]) for number, unit in result if bool(unit) == outcomes]


def settings(blocks: list[Block]) -> list[float]:
    """Numbers of specs, programs, files and commands of a page that tests read or execute."""
    texts = [b.text for b in blocks if b.mark == "file" or b.language in ("toml", "python", "json")]
    texts += [c.line for b in blocks if b.language == "console" for c in commands_of(b)]
    return [float(n.replace("_", "")) for text in texts for n in re.findall(r"(?<![\w.])\d[\d_]*(?:\.\d+)?(?:e\d+)?", text)]
