"""Text in the cells of a CSV file that people open in a spreadsheet, which would read some texts as formulas and carry them out.

A name of a device, an arm or a client may come from anybody. A text that begins like a formula gets an apostrophe in front, which
spreadsheets show as plain text; our own readers take it away again. Numbers stay as they are.
"""

from __future__ import annotations

import re
from typing import Any

# Apostrophes, and behind them what begins a formula: = + - @, a tab or the end of a line.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)")


def guard_cell(value: Any) -> Any:
    """A value as it is written: text that a spreadsheet would take for a formula begins with an apostrophe.

    >>> [guard_cell(value) for value in ("=1+2", "@sum", "phone", "-1.5", -1.5, None, "'=x")]
    ["'=1+2", "'@sum", 'phone', '-1.5', -1.5, None, "''=x"]
    """
    if not isinstance(value, str) or not _FORMULA.match(value) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def unguard_cell(text: str) -> str:
    """The text that was written as this cell: the inverse of `guard_cell`.

    >>> [unguard_cell(text) for text in ("'=1+2", "phone", "-1.5", "''=x", "'s")]
    ['=1+2', 'phone', '-1.5', "'=x", "'s"]
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
