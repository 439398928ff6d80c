"""The part of Helm's template language that our chart uses, rendered without Helm; anything else is refused.

Values, `if`/`else`/`end`, `range`, and the functions below. Which values a template looks at is noted on the way.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

_TAG = re.compile(r"(?P<left>\{\{-\s|\{\{\s)(?P<code>.*?)(?P<right>\s-\}\}|\s\}\})", re.S)
_WORD = re.compile(r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<mark>[|()])|(?P<word>[^\s|()"]+))')


class Unrenderable(Exception):
    """What Helm would refuse, or what our subset does not have."""


@dataclass
class Scope:
    """What a template can see; `used` collects the paths of values that it looked at."""

    dot: Any
    root: dict[str, Any]
    used: set[str] = field(default_factory=set)
    names: dict[str, Any] = field(default_factory=dict)

    def within(self, dot: Any, names: dict[str, Any]) -> Scope:
        """The inside of a range."""
        return Scope(dot, self.root, self.used, {**self.names, **names})


def render(text: str, values: dict[str, Any], *, release: str = "mine") -> tuple[str, set[str]]:
    """A rendered template, and the paths below .Values that it used."""
    root = {"Values": values, "Release": {"Name": release}, "Chart": {"Name": "fedfleet"}}
    scope = Scope(root, root)
    pieces = list(_pieces(text))
    out, rest = _block(pieces, 0, scope, live=True)
    if rest != len(pieces):
        raise Unrenderable(f"a stray {pieces[rest][1]}")
    return out, scope.used


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Text and code in turn; dashes eat the white space beside them."""
    at, trim = 0, False
    for tag in _TAG.finditer(text):
        before = text[at : tag.start()]
        before = before.lstrip() if trim else before
        yield "text", before.rstrip() if tag["left"].startswith("{{-") else before
        yield "code", tag["code"].strip()
        at, trim = tag.end(), tag["right"].endswith("-}}")
    rest = text[at:]
    if "{{" in rest or "}}" in rest:
        raise Unrenderable("braces that are no tag: a tag has a space on either side")
    yield "text", rest.lstrip() if trim else rest


def _block(pieces: list[tuple[str, str]], at: int, scope: Scope, *, live: bool) -> tuple[str, int]:
    """Render up to the end of this block; code that is not `live` is only walked through."""
    out = ""
    while at < len(pieces):
        kind, code = pieces[at]
        head, _, rest = code.partition(" ")
        if kind == "text":
            out, at = out + code * live, at + 1
        elif code in ("end", "else"):
            return out, at
        elif head == "if":
            holds = _truth(_value(rest, scope))
            inner, at = _block(pieces, at + 1, scope, live=live and holds)
            other = ""
            if at < len(pieces) and pieces[at] == ("code", "else"):
                other, at = _block(pieces, at + 1, scope, live=live and not holds)
            out, at = out + inner + other, _ended(pieces, at)
        elif head == "range":
            inner, at = _range(rest, pieces, at + 1, scope, live=live)
            out += inner
        else:
            out, at = out + (_said(_value(code, scope)) if live else _walk(code, scope)), at + 1
    return out, at


def _walk(code: str, scope: Scope) -> str:
    """Note what dead code looks at, without failing because of it."""
    for path in re.findall(r"\.Values\.[\w.]+", code):
        scope.used.add(path.removeprefix(".Values."))
    return ""


def _range(code: str, pieces: list[tuple[str, str]], at: int, scope: Scope, *, live: bool) -> tuple[str, int]:
    names, over = [], code
    if ":=" in code:
        said, over = code.split(":=")
        names = [name.strip() for name in said.split(",")]
    result = _value(over, scope)
    rows = list(result.items()) if isinstance(result, dict) else list(enumerate(result))
    out = ""
    for key, value in rows or [(None, None)]:
        told = dict(zip(names[-2:], (key, value) if len(names) == 2 else (value,), strict=False))
        inner, end = _block(pieces, at, scope.within(value, told), live=live and bool(rows))
        out += inner
    return out, _ended(pieces, end)


def _ended(pieces: list[tuple[str, str]], at: int) -> int:
    if at >= len(pieces) or pieces[at][1] != "end":
        raise Unrenderable("a block without its end")
    return at + 1


def _value(code: str, scope: Scope) -> Any:
    words = [(m.lastgroup, m[m.lastgroup]) for m in _WORD.finditer(code)]
    value, at = _pipeline(words, 0, scope)
    if at != len(words):
        raise Unrenderable(f"cannot read {code!r}")
    return value


def _said(value: Any) -> str:
    """As Go prints it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pipeline(words: list[Any], at: int, scope: Scope) -> tuple[Any, int]:
    value, at = _command(words, at, scope, ())
    while at < len(words) and words[at] == ("mark", "|"):
        value, at = _command(words, at + 1, scope, (value,))
    return value, at


def _command(words: list[Any], at: int, scope: Scope, last: tuple[Any, ...]) -> tuple[Any, int]:
    name = words[at][1]
    called = FUNCTIONS.get(name) if words[at][0] == "word" else None
    arguments: list[Any] = []
    at += called is not None
    while at < len(words) and words[at] not in (("mark", "|"), ("mark", ")")):
        argument, at = _operand(words, at, scope)
        arguments.append(argument)
    if called is not None:
        return called(*arguments, *last), at
    if len(arguments) != 1 or last:
        raise Unrenderable(f"there is no function {name}")
    return arguments[0], at


def _operand(words: list[Any], at: int, scope: Scope) -> tuple[Any, int]:
    kind, word = words[at]
    if kind == "mark" and word == "(":
        value, at = _pipeline(words, at + 1, scope)
        return value, at + 1
    if kind == "text":
        return json.loads(word), at + 1
    if word == ".":
        return scope.dot, at + 1
    if word.startswith("$"):
        return scope.names[word], at + 1
    if word.startswith("."):
        return _looked_up(word, scope), at + 1
    if re.fullmatch(r"-?\d+", word):
        return int(word), at + 1
    raise Unrenderable(f"cannot read {word!r}")


def _looked_up(path: str, scope: Scope) -> Any:
    result: Any = scope.root
    for name in path.strip(".").split("."):
        if not isinstance(result, dict) or name not in result:
            raise Unrenderable(f"{path} is nowhere defined")
        result = result[name]
    if path.startswith(".Values."):
        scope.used.add(path.removeprefix(".Values."))
    return result


def _truth(value: Any) -> bool:
    return bool(value)


def _required(message: str, value: Any) -> Any:
    if value in (None, ""):
        raise Unrenderable(message)
    return value


def _to_yaml(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=False, sort_keys=True).rstrip("\n").removesuffix("\n...")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "default": lambda otherwise, value: value if _truth(value) else otherwise,
    "quote": lambda value: json.dumps(str(value).lower() if isinstance(value, bool) else str(value)),
    "toYaml": _to_yaml,
    "toJson": json.dumps,
    "nindent": lambda n, text: "\n" + "\n".join(" " * n + line for line in text.splitlines()),
    "b64enc": lambda text: base64.b64encode(text.encode()).decode(),
    "printf": lambda form, *values: form % values,
    "required": _required,
    "not": lambda value: not _truth(value),
}
