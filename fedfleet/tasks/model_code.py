"""A model in a file of Python: `model.py:Net` names the file and a class or function in it that makes the model.

The class or function is called without arguments, or with those of `inputs` (the shape of one sample) and `outputs` (how many
classes, labels or numbers) that it has.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from fedfleet.core.errors import BadInput, error_context, nearest_file, suggest_name
from fedfleet.tasks.trusted_code import MOST_BYTES, source_hash, trust, trusted_file, trusted_source

_OFFERED = ("inputs", "outputs")


@dataclass(frozen=True, slots=True)
class CodeName:
    """A file of Python and the name of what makes the model in it; `file` is "" where only the code's hash is known."""

    file: str
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.name}"


def code_name(model: str) -> CodeName | None:
    """The file and the name in `model.py:Net`; None if that is no name of code.

    >>> code_name("nets/model.py:Net"), code_name("mlp")
    (CodeName(file='nets/model.py', name='Net'), None)
    """
    file, colon, name = model.rpartition(":")
    if not colon:
        if model.endswith(".py"):
            raise BadInput(f"model = {model!r} names a file; name the class or function in it too, as in {model}:Net")
        return None
    if not file.endswith(".py") and file:
        raise BadInput(f"model = {model!r}: {file} is not a Python file; write model.py:Net")
    if not name.isidentifier():
        raise BadInput(f"model = {model!r}: {name!r} is not the name of a class or function; write model.py:Net")
    return CodeName(file, name)


def read_code(file: str) -> str:
    """The source in a file."""
    path = Path(file).expanduser()
    try:
        if path.stat().st_size > MOST_BYTES:
            raise BadInput(f"model: {path} has more than {MOST_BYTES:,} bytes; give a file with the model alone")
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise BadInput(f"model: there is no file {path}{nearest_file(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"model: {path} cannot be read ({error}); give a file of Python in UTF-8") from None


def trust_file(model: str) -> str:
    """Trust the code that a person names on a command line or in Python; its hash."""
    named = code_name(model)
    if named is None or not named.file:
        raise BadInput(f"model = {model!r} is not FILE.py:NAME; write for example model.py:Net")
    return trust(read_code(named.file))


def current_hash(named: CodeName) -> str:
    """The hash of the code as it lies in its file now."""
    return source_hash(read_code(named.file))


def model_maker(named: CodeName, digest: str) -> Callable[[tuple[int, ...], int], Any]:
    """What makes the model, from its shape of inputs and its number of outputs. This runs the code, so it must be trusted."""
    source = trusted_source(digest)
    if source is None:
        raise BadInput(untrusted_text(named, digest))
    module = _module(named, source, digest)
    make = getattr(module, named.name, None)
    if make is None:
        names = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise BadInput(f"model: {named.file} has no {named.name!r}{suggest_name(named.name, names)}")
    if not callable(make):
        raise BadInput(
            f"model: {named.name!r} in {named.file} is a {type(make).__name__}, not a class or function; name what makes the model"
        )
    taken = _parameters(named, make)

    def make_model(shape: tuple[int, ...], outputs: int) -> Any:
        offered = {"inputs": shape[0] if len(shape) == 1 else shape, "outputs": outputs}
        with error_context(f"your model {named}"):
            return make(**{name: offered[name] for name in taken})

    return make_model


def untrusted_text(named: CodeName, digest: str) -> str:
    """Why code does not run here, and what a person does who has read it."""
    file = named.file or "the file"
    return (
        f"task.model: {named.name} is code ({file}, hash {digest}), and no code runs that you do not trust; read it, then trust "
        f"this version once on this machine: fedfleet trust {file}"
    )


def _parameters(named: CodeName, make: Callable[..., Any]) -> tuple[str, ...]:
    """Those of the offered arguments that the maker takes."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):  # it does not say
        return ()
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in variable and p.name not in _OFFERED]
    if needed:
        raise BadInput(
            f"model: {named.name} in {named.file} needs the argument {needed[0]!r}, which nothing gives; give it a default, or "
            "take inputs (the size of one sample) and outputs (how many classes, labels or numbers)"
        )
    return tuple(p.name for p in parameters if p.name in _OFFERED)


def _module(named: CodeName, source: str, digest: str) -> ModuleType:
    """The module of this source, run once a process, under a name that replaces nothing."""
    name = f"fedfleet_model_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(trusted_file(digest))
    sys.modules[name] = module  # where dataclasses and the like look for it
    try:
        exec(compile(source, module.__file__, "exec"), vars(module))
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, ModuleNotFoundError):
            raise BadInput(
                f"model: {named.file} imports {error.name!r}, which is not installed; put that code into the same file, or install "
                "it"
            ) from None
        if isinstance(error, SyntaxError):
            raise BadInput(f"model: {named.file} is not valid Python: line {error.lineno}: {error.msg}") from None
        if not isinstance(error, Exception):
            raise
        raise BadInput(f"model: {named.file} fails when it is loaded: {type(error).__name__}: {error}") from None
    return module
