"""How to check a comparison: what differs between the runs, their digests, and the commands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from fedfleet.app.pages.html import details_block
from fedfleet.app.pages.sides.run_rows import Head, html_table

_COLUMNS = 6  # runs whose values stand beside each other
_VALUES = 8  # different values of a key that are listed


def check_section(
    names: Sequence[str],
    differs: Mapping[str, Sequence[Any]],
    digests: Sequence[tuple[str, str]],
    commands: Sequence[str],
) -> str:
    """Three things behind their names."""
    pre = (
        "\n".join(f"{name:<{max(len(n) for n, _ in digests)}}  {digest}" for name, digest in digests) if digests else ""
    )
    return (
        "<h2>How to check it</h2>"
        + (details_block("What differs between the runs", differences(names, differs)) if differs else "")
        + (details_block("Digests of the journals", f"<pre>{escape(pre)}</pre>") if pre else "")
        + (details_block("Commands", f"<pre>{escape(chr(10).join(commands))}</pre>") if commands else "")
    )


def differences(names: Sequence[str], differs: Mapping[str, Sequence[Any]]) -> str:
    """Keys of the specs with the value of each run; of many runs, with the different values."""
    if len(names) <= _COLUMNS:
        heads = [Head("key"), *(Head(name, kind="words") for name in names)]
        return html_table(heads, [[_code(key), *(escape(_word(v)) for v in values)] for key, values in differs.items()])
    rows = [[_code(key), escape(_values(values))] for key, values in differs.items()]
    return html_table([Head("key"), Head("values", kind="words")], rows)


def _code(key: str) -> str:
    return f"<code>{escape(key)}</code>"


def _word(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)


def _values(values: Sequence[Any]) -> str:
    result = list(dict.fromkeys(map(_word, values)))
    return ", ".join(result[:_VALUES]) + (f" and {len(result) - _VALUES} more" if len(result) > _VALUES else "")


def commands_for(folders: Sequence[Path]) -> list[str]:
    """What to type: replay one run, explain it, change it and compare."""
    if not folders:
        return []
    first = shlex.quote(str(folders[0]))
    first_two = shlex.join(map(str, folders[:2]))
    return [
        f"fedfleet replay {first}",
        f"fedfleet explain {first}",
        f"fedfleet run {shlex.quote(str(folders[0] / 'spec.toml'))} seed=1 --out mine",
        f"fedfleet compare {first_two} mine",
    ]
