"""The frame of a page: one file without scripts that loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from importlib.resources import files
from pathlib import Path

from fedfleet.core.errors import BadInput
from fedfleet.store.file_modes import creation_mode

# Patterns that every picture of a page may use: hatched alone, and hatching over another paint.
_PATTERNS = (
    '<svg aria-hidden="true" style="position:absolute;width:0;height:0"><defs>'
    '<pattern id="late" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V5" class="late-stroke"/></pattern>'
    '<pattern id="over" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M1 0V5" class="over-stroke"/></pattern>'
    "</defs></svg>"
)


_SHORT = 11  # characters of a key figure that stay on one line in full size


def tokens() -> str:
    """Colours, type and space as variables, light and dark: the dashboard has the same."""
    return files("fedfleet.app.pages").joinpath("tokens.css").read_text(encoding="utf-8")


def style() -> str:
    """The style sheet of all pages, with its variables; light, dark and in print."""
    return tokens() + files("fedfleet.app.pages").joinpath("style.css").read_text(encoding="utf-8")


def page(title: str, body: Sequence[str], *, top: str = "", description: str = "") -> str:
    """A whole page with the style sheet inside; `top` is the line above all (see `topline`), `description` one sentence for search and sharing."""
    about = f'<meta name="description" content="{escape(description, quote=True)}">' if description else ""
    document = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title>{about}<style>{style()}</style></head>\n<body>\n'
        + _PATTERNS
        + "<main>\n"
        + bind_units("\n".join([top or topline(""), *body]))
        + "\n</main>\n</body></html>\n"
    )
    return document.encode(errors="backslashreplace").decode()  # the name of a folder need not be text


def write_page(path: Path, text: str) -> None:
    """Write a page of a folder, whole or not at all: half of one, left by a kill or a full disk, would never be written again.

    BadInput if there is no room for it, or no right to write there.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        mode = creation_mode(path.parent)
        with open(draft, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(text)
        draft.replace(path)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror or error}; free some space, or allow writing there") from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


_UNIT = re.compile(r"(\d) (%|h|min|s|days?|[kMGT]?B|[kM]?J|points|rounds?)(?![\w/])")
_P_VALUE = re.compile(r"\bp (=|&lt;|<) ")
# What is copied, drawn or read by machines stays as it is.
_VERBATIM = re.compile(r"(<(pre|code|svg|title)\b.*?</\2>|<[^>]*>)", re.DOTALL)


def bind_units(text: str) -> str:
    """Text or HTML in which numbers stay on one line with their units.

    >>> bind_units('<p title="5 s">After 5 s, <code>5 s</code>').replace("\\u00a0", "~")
    '<p title="5 s">After 5~s, <code>5 s</code>'
    """
    parts = _VERBATIM.split(text)  # text, what stands apart, its name, text, ..
    parts[::3] = [_P_VALUE.sub("p\u00a0\\1\u00a0", _UNIT.sub("\\1\u00a0\\2", part)) for part in parts[::3]]
    return "".join(part for i, part in enumerate(parts) if i % 3 < 2)


def topline(what: str, links: Sequence[tuple[str, str]] = ()) -> str:
    """The line above all: what this page is about, and (word, address) of its neighbours."""
    ways = "".join(f'<a href="{escape(to, quote=True)}">{escape(word)}</a>' for word, to in links)
    return f'<nav class="top"><span><b>FedFleet</b> {escape(what)}</span><span>{ways}</span></nav>'


def key_figures(entries: Sequence[tuple[str, str, str]]) -> str:
    """The key figures: (value, what it is, a gloss shown on hover); a value that begins with ! is an alarm."""

    def entry(value: str, what: str, gloss: str) -> str:
        term = f'<abbr title="{escape(gloss, quote=True)}">{escape(what)}</abbr>' if gloss else escape(what)
        kinds = " ".join(k for k, applies in (("bad", value[:1] == "!"), ("long", len(value) > _SHORT)) if applies)
        marked = f' class="{kinds}"' if kinds else ""
        return f"<div><dt>{term}</dt><dd{marked}>{escape(value.removeprefix('!'))}</dd></div>"

    return f'<dl class="keys">{"".join(entry(*one) for one in entries)}</dl>'


def details_block(summary: str, inside: str) -> str:
    """What only some readers want, behind its name."""
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[int] = (), links: Sequence[str] = ()) -> str:
    """A table; the columns listed in `words` hold prose; `links` are where the names of the rows lead.

    On phones each row becomes a block that carries the words of the head with it.
    """

    def kind(i: int) -> str:
        return ' class="words"' if i in words else ""

    def cell(i: int, text: str, to: str) -> str:
        name = f'<a href="{escape(to, quote=True)}">{escape(text)}</a>' if to and i == 0 else escape(text)
        label = f' data-h="{escape(head[i], quote=True)}"' if i else ""
        return f"<td{kind(i)}{label}>{name}</td>"

    def line(row: Sequence[str], to: str) -> str:
        return "<tr>" + "".join(cell(i, text, to) for i, text in enumerate(row)) + "</tr>"

    ways = links or [""] * len(rows)
    heads = "".join(f'<th scope="col"{kind(i)}>{escape(word)}</th>' for i, word in enumerate(head))
    lines = "".join(line(row, to) for row, to in zip(rows, ways, strict=True))
    return f'<table class="rows"><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>'
