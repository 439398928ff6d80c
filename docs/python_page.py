"""The reference of the Python calls, from the docstrings of the public names."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import fedfleet
from fedfleet import parts, testing


def python_page() -> str:
    """The public names of the package: calls first, then results, errors and the types that parts are made of."""
    lines = [
        "# From Python",
        "",
        "Made from the docstrings by `make docs`; `help(fedfleet.run)` prints the same. All of these load on first use:",
        "`import fedfleet` itself costs nothing.",
    ]
    public = [name for name in fedfleet.__all__ if not name.startswith("_")]
    # From its home: `fedfleet.measure` is also a package.
    found = {name: getattr(import_module(fedfleet._HOME[name]), name) for name in public}
    kinds = {
        "Calls": [n for n in public if not inspect.isclass(found[n])],
        "Errors": [n for n in public if inspect.isclass(found[n]) and issubclass(found[n], Exception)],
        "What they give and take": [n for n in public if inspect.isclass(found[n]) and not issubclass(found[n], Exception)],
    }
    for title, names_of_kind in kinds.items():
        lines += ["", f"## {title}"]
        for name in sorted(names_of_kind):
            lines += ["", f"### fedfleet.{name}", "", *documented(found[name])]
    return "\n".join([*lines, *own_parts(), *checks()]) + "\n"


def own_parts() -> list[str]:
    """What parts of one's own are made of."""
    lines = [
        "", "## Parts of your own", "",
        "`from fedfleet.parts import with_rule`: methods to begin with, functions that change them, randomness with an address.",
        "[Your own rules](../how-to/own-rules.md) shows how they are used. Functions that change an algorithm combine freely.",
    ]  # fmt: skip
    for name in sorted(parts.__all__, key=str.lower):
        lines += ["", f"### fedfleet.parts.{name}", "", *documented(getattr(parts, name), "fedfleet.parts")]
    return lines


def checks() -> list[str]:
    """The checks of parts."""
    lines = [
        "", "## Checks of parts", "",
        "`from fedfleet.testing import check_selector`: each check prints what it checked and gives a `Conformance`, or raises",
        "`AssertionError` with the rule that is broken, what was seen, and the cure.",
    ]  # fmt: skip
    for name in sorted(testing.__all__, key=str.lower):
        lines += ["", f"### fedfleet.testing.{name}", "", *documented(getattr(testing, name), "fedfleet.testing")]
    return lines


def documented(thing: Any, package: str = "fedfleet") -> list[str]:
    """A call's parameters or a record's fields, then what the docstring says, its examples as such."""
    text = inspect.getdoc(thing) or ""
    if text.startswith(f"{getattr(thing, '__name__', '')}("):
        text = ""  # a record without a docstring has its own signature for one
    if not inspect.isclass(thing):
        return ["```text", *signature(thing, package), "```", "", *paragraphs(text)]
    fields = getattr(thing, "__annotations__", {})
    rows = [f"| `{n}` | `{str(t).replace('|', chr(92) + '|')}` |" for n, t in fields.items() if not n.startswith("_")]
    return [
        *paragraphs(text),
        *(["", "| field | type |", "| --- | --- |", *rows] if rows else []),
        *(["", *asked] if (asked := questions(thing)) else []),
    ]


def questions(record: type) -> list[str]:
    """What a record can be asked beside its fields: properties by name, methods with brackets, each with its duty."""
    found: list[str] = []
    for name, member in vars(record).items():
        told = inspect.getdoc(member)
        if not name.startswith("_") and told and (isinstance(member, property) or inspect.isfunction(member)):
            found.append(f"- `.{name}{'' if isinstance(member, property) else '()'}`: {told.partition(chr(10) * 2)[0]}")
    return found


def signature(thing: Any, package: str) -> list[str]:
    """A call as it is written, one parameter a line."""
    asked = inspect.signature(thing)
    given = [str(p).replace("'", "") for p in asked.parameters.values()]
    stars = next((i for i, p in enumerate(asked.parameters.values()) if p.kind is p.KEYWORD_ONLY), None)
    if stars is not None and not any(p.kind is p.VAR_POSITIONAL for p in asked.parameters.values()):
        given.insert(stars, "*")
    back = asked.return_annotation
    return [f"{package}.{thing.__name__}(", *(f"    {one}," for one in given), f") -> {back}"]


def paragraphs(text: str) -> list[str]:
    """A docstring as a page: `Args:` becomes a list, examples are fenced."""
    lines: list[str] = []
    for part in text.split("\n\n"):
        if part.startswith(">>> "):
            lines += ["```pycon", part, "```", ""]
        elif part.startswith("Args:"):
            told = inspect.cleandoc(part.removeprefix("Args:")).splitlines()
            lines += [f"  {line.strip()}" if line.startswith(" ") else f"- {code_name(line)}" for line in told]
            lines += [""]
        else:
            lines += [part, ""]
    return lines[:-1]


def code_name(line: str) -> str:
    """`name: what it means` with the name as code."""
    name, colon, meaning = line.partition(":")
    return f"`{name}`{colon}{meaning}"
