"""The frame of a page: one file without scripts that loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files


def page(title: str, body: Sequence[str]) -> str:
    """A whole page with the style sheet inside."""
    style = files("fedfleet.app.pages").joinpath("style.css").read_text()
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def figure(picture: str, caption: str) -> str:
    """A figure with its caption."""
    return f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"


def tiles(entries: Sequence[tuple[str, str]]) -> str:
    """The most important numbers, as large tiles."""
    return (
        '<div class="tiles">'
        + "".join(f'<div class="tile"><b>{escape(v)}</b><span>{escape(n)}</span></div>' for n, v in entries)
        + "</div>"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[int] = ()) -> str:
    """A table; the columns listed in `words` hold prose."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = [' class="words"' if i in words else "" for i in range(len(row))]
        return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    lines = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{cells("th", head)}</tr></thead><tbody>{lines}</tbody></table></div>'
