"""JSON that anybody may have written: one kind of error, whatever is wrong with it."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """The value in a text of JSON; ValueError whatever is wrong with it, also where it is nested too deeply.

    >>> parse_json('{"a": [1, 2]}')
    {'a': [1, 2]}
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its lists are nested too deeply") from None
