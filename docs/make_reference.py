"""Write docs/reference/parts.md from the registry: `python -m docs.make_reference`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from fedfleet.app.spec.describe import around_any, describe
from fedfleet.core.registry import KINDS, builder, names

PAGE = Path(__file__).parent / "reference" / "parts.md"


def page() -> str:
    """The whole page."""
    lines = [
        "# All parts and their parameters",
        "",
        "Made from the code by `make docs`; `fedfleet list KIND` prints the same.",
    ]
    for kind in KINDS:
        if not names(kind):
            continue
        lines += ["", f"## {kind}"]
        for name in names(kind):
            build = builder(kind, name)
            lines += ["", f"### {name}", "", inspect.getdoc(build) or ""]
            lines += table(describe(build))
        if kind == "algorithms":
            lines += [
                "",
                "### Around any algorithm",
                "",
                "Keys of [algorithm] beside the algorithm's own, applied in this order.",
            ]
            lines += table(around_any())
    return "\n".join(lines) + "\n"


def table(told: dict[str, dict[str, Any]]) -> list[str]:
    """Parameters as a table; nothing if there are none."""
    if not told:
        return []
    rows = [f"| `{n}` | {p['type']} | {'required' if p['required'] else p['default']} |" for n, p in told.items()]
    return ["", "| parameter | type | default |", "| --- | --- | --- |", *rows]


if __name__ == "__main__":
    PAGE.write_text(page())
