"""Write the pages of docs/reference that are made from the code: `python -m docs.make_reference`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from docs.python_page import python_page
from fedfleet.app.cli.commands import group_command
from fedfleet.app.cli.main import FEDFLEET
from fedfleet.app.spec.parameter_text import describe, wrapper_parameters
from fedfleet.core.registry import KINDS, builder, names

REFERENCE = Path(__file__).parent / "reference"


def parts_page() -> str:
    """All parts, by kind."""
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
                "Keys of [algorithm] in addition to the algorithm's own, applied in this order.",
            ]
            lines += table(wrapper_parameters())
    return "\n".join(lines) + "\n"


def table(told: dict[str, dict[str, Any]]) -> list[str]:
    """Parameters as a table; nothing if there are none."""
    if not told:
        return []
    rows = [f"| `{n}` | {p['type']} | {'required' if p['required'] else p['default']} |" for n, p in told.items()]
    return ["", "| parameter | type | default |", "| --- | --- | --- |", *rows]


def commands_page() -> str:
    """All verbs, with their options."""
    lines = [
        "# The command line",
        "",
        "Made from the code by `make docs`; `fedfleet VERB --help` prints the same.",
        "",
        "Exit codes: 0 success, 1 a run that failed or made no model, 2 bad input, 130 interrupted.",
    ]
    return "\n".join([*lines, *verbs("fedfleet", group_command("fedfleet", FEDFLEET))]) + "\n"


def verbs(path: str, group: Any) -> list[str]:
    """The verbs of a group, and of the groups in it."""
    lines: list[str] = []
    for name in group.list_commands(None):
        verb = group.get_command(None, name)
        if hasattr(verb, "list_commands"):
            lines += verbs(f"{path} {name}", verb)
            continue
        lines += ["", f"## {path} {name}", "", inspect.cleandoc(verb.help or "")]
        lines += ["", "| | meaning | default |", "| --- | --- | --- |", *map(option, verb.params)]
    return lines


def option(p: Any) -> str:
    """One argument or option as a row; flags are off, and what is None has its default in its meaning."""
    optional = p.opts[0].startswith("-")
    named = " ".join([*p.opts, *([p.metavar] if p.metavar else [])]) if optional else p.metavar or p.name.upper()
    default = "required" if p.required else "" if p.default is None or p.default is False else str(p.default)
    return f"| `{named}` | {p.help or ''} | {default} |"


def onnx_page() -> str:
    """What of ONNX files can be trained."""
    from fedfleet.tasks.description.onnx_operators import OPERATORS

    lines = [
        "# Operators of ONNX",
        "",
        "Made from the code by `make docs`: the operators that a file with a model to be trained may have. A file with another",
        "operator is refused, and the refusal names the node. Shapes that a file computes itself are followed.",
        "FedFleet writes files of opset 17.",
        "",
        *(f"- `{name}`" for name in sorted(OPERATORS)),
    ]
    return "\n".join(lines) + "\n"


PAGES = {
    REFERENCE / "parts.md": parts_page,
    REFERENCE / "commands.md": commands_page,
    REFERENCE / "python.md": python_page,
    REFERENCE / "onnx.md": onnx_page,
}

if __name__ == "__main__":
    for path, made in PAGES.items():
        path.write_text(made())
