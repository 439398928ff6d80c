"""What the table of verbs is made of. Nothing here loads what makes commands of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb is a Python call: its signature declares the options, its docstring the help, its result is printed.

    `call` is "module:function". `arguments` names the positional parameters with what the usage line shows for them. `options`
    says how an option is written where its name differs from the parameter's, or what stands for its value: "--out PAGE".
    `panels` groups options in the help. `supplied` gives parameters that no command line can give. `interrupted` is what is said
    after Ctrl-C.
    """

    call: str
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    panels: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    supplied: Mapping[str, Callable[[Any], object]] = field(default_factory=dict[str, Callable[[Any], object]])
    interrupted: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A verb that has verbs of its own: its help text, and its verbs by name."""

    help: str
    verbs: Mapping[str, Verb | Group]
