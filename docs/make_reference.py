"""Write docs/reference/parts.md from the registry: `python -m docs.make_reference`."""

from __future__ import annotations

import inspect
from pathlib import Path

from fedfleet.app.spec.describe import describe
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
            told = describe(build)
            if told:
                lines += ["", "| parameter | type | default |", "| --- | --- | --- |"]
                lines += [
                    f"| `{n}` | {p['type']} | {'required' if p['required'] else p['default']} |"
                    for n, p in told.items()
                ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
