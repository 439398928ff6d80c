"""How functions and classes that a person gave are found again: by module and name, with the source that they had.

Describing runs nothing but what the person gave. Finding again runs code, and is for callers who were told to trust it.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import sys
from dataclasses import dataclass, field
from functools import partial, reduce
from importlib import import_module
from importlib.util import decode_source, find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from fedfleet.core.errors import BadInput, FedFleetError, error_context

SCRIPT = "__main__"


@dataclass(frozen=True, slots=True)
class Entry:
    """How one thing that a person gave is made again: from PyTorch's own layers, from code, or only by the person's hand.

    For code: where it is named, whether what is wanted is the thing itself or what it gives when it is called with these
    arguments, and the hashes of its module's source and of its own text. `what` says it in words.
    """

    by: Literal["layers", "code", "hand"]
    what: str
    layers: dict[str, Any] = field(default_factory=dict[str, Any])
    module: str = ""
    name: str = ""
    call: bool = False
    args: list[Any] = field(default_factory=list[Any])
    kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    sha256: str = ""
    own: str = ""


def describe_object(thing: Any, *, call: bool) -> tuple[Entry, str]:
    """How this function, class or `functools.partial` is found again, and the source of its module ("": none).

    `call`: what is wanted is what it gives when it is called. An entry by "hand" says why only the person can give it.
    """
    call_spec = thing if isinstance(thing, partial) else partial(thing)
    target, args, kwargs = call_spec.func, list(call_spec.args), dict(call_spec.keywords)
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or "<" in name:
        return manual_entry(f"{name or type(thing).__name__}, which has no name of its own in a module")
    if not _is_plain_json([args, kwargs]):
        return manual_entry(f"{name} with arguments that are not plain numbers, texts or lists")
    if _lookup(sys.modules.get(module), name) is not target:
        return manual_entry(f"{name}, which is not what {module} holds under that name")
    text = _module_source(module)
    if not text and module == SCRIPT:
        return manual_entry(f"{name}, which was typed in and has no source file")
    what = f"{module}:{name}"
    return Entry("code", what, {}, module, name, call, args, kwargs, sha256(text), _text_hash(target)), text


def manual_entry(what: str) -> tuple[Entry, str]:
    """An entry for what only the person can give again."""
    return Entry("hand", what), ""


def load_object(entry: Entry, text: str) -> Any:
    """What an entry names: imported if the module here has the same source, else made from the source that was kept."""
    module = entry.module
    with error_context(f"the code of {entry.what}"):
        importable = module != SCRIPT and (not text or _importable_source(module) == text)
        holder = import_module(module) if importable else _run_source(module, text)
        target = _lookup(holder, entry.name)
        if target is None:
            raise BadInput(f"there is no {entry.name!r} in {module}")
        call_spec = partial(target, *entry.args, **entry.kwargs)
        return call_spec() if entry.call else call_spec if entry.args or entry.kwargs else target


def sha256(text: str) -> str:
    """The hash of a source text; "" of none."""
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


def declarations_only(text: str) -> str:
    """A script without what it does: its imports, functions, classes and plain constants."""
    nodes = [node for node in ast.parse(text).body if _declares(node)]
    return ast.unparse(ast.Module(nodes, [])) + "\n"


def _declares(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        try:
            ast.literal_eval(node.value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return False
        return True
    return isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef)


def _run_source(module: str, text: str) -> ModuleType:
    """A module made from kept source, once, under a name of its own, so that it replaces nothing."""
    name = f"fedfleet_kept_{sha256(text)}"
    if name in sys.modules:
        return sys.modules[name]
    new_module = ModuleType(name)
    package = module.rpartition(".")[0]
    if package and module != SCRIPT:
        new_module.__package__ = package  # for its imports from beside it
    code = compile(text, f"<kept source of {module}>", "exec")
    sys.modules[name] = new_module  # where dataclasses and the like look for it
    try:
        exec(code, vars(new_module))
    except BaseException:
        del sys.modules[name]
        raise
    return new_module


def _module_source(module: str) -> str:
    """The source of a module that is loaded here; of a script, only what it declares."""
    loaded = sys.modules[module]
    try:
        file = inspect.getsourcefile(loaded)
        text = decode_source(Path(file).read_bytes()) if file else inspect.getsource(loaded)
    except (OSError, TypeError, SyntaxError, UnicodeDecodeError):
        return ""
    return declarations_only(text) if module == SCRIPT else text


def _importable_source(module: str) -> str | None:
    """The source that importing this module would run; None if there is no such module here."""
    if module in sys.modules:
        return _module_source(module)
    try:
        spec = find_spec(module)
        return decode_source(Path(spec.origin).read_bytes()) if spec and spec.origin else None
    except (ImportError, OSError, ValueError, SyntaxError):
        return None


def _text_hash(target: Any) -> str:
    """The hash of the text of the function or class alone."""
    try:
        return sha256(inspect.getsource(target))
    except (OSError, TypeError):
        return ""


def _lookup(holder: Any, name: str) -> Any:
    return reduce(lambda holder_part, part: getattr(holder_part, part, None), name.split("."), holder)


def _is_plain_json(value: Any) -> bool:
    try:
        return json.loads(json.dumps(value, allow_nan=False)) == value
    except (TypeError, ValueError, RecursionError):
        return False


def model_entry(model: Any, sample: Any) -> tuple[Entry, str]:
    """How a model is made again; whatever is noted has been tried."""
    from fedfleet.tasks import layers

    is_object = hasattr(model, "state_dict") and not isinstance(model, type)
    example: Any = model if is_object else model()
    layer_table = layers.describe_model(example)
    if layer_table is not None:
        return Entry("layers", "layers of PyTorch", layer_table), ""
    entry, text = describe_object(type(model) if is_object else model, call=True)
    if entry.by == "code" and (is_object or entry.module == SCRIPT):
        try:
            same = layers.same_model(example, load_object(entry, text), sample)
        except FedFleetError:
            same = False
        if not same:
            cure = f"functools.partial({type(example).__name__}, ..)" if is_object else "a function from a module"
            return manual_entry(f"{type(example).__name__}, which cannot be made again from its name alone (give {cure})")
    return entry, text


def function_entry(function: Any) -> tuple[Entry, str]:
    """How a loss or a metric is found again."""
    from fedfleet.tasks import layers

    layer_table = layers.describe_loss(function)
    if layer_table is not None:
        return Entry("layers", "a loss of PyTorch", layer_table), ""
    if isinstance(function, partial) or hasattr(function, "__qualname__"):
        entry, text = describe_object(function, call=False)
    elif getattr(function, "__dict__", None):
        return manual_entry(f"an object of {type(function).__name__} with settings of its own")
    else:
        entry, text = describe_object(type(function), call=True)
    if entry.by == "code" and entry.module == SCRIPT:
        try:
            load_object(entry, text)
        except FedFleetError as error:
            return manual_entry(f"{entry.name}, whose source does not run alone ({error})")
    return entry, text


def rebuild_object(entry: Entry, text: str) -> Any:
    """What an entry says: this runs the code of an entry by code."""
    from fedfleet.tasks import layers

    return layers.build_from(entry.layers) if entry.by == "layers" else load_object(entry, text)


def matches_entry(stored: Entry, thing: Any) -> bool:
    """Is this what an entry was made of, as far as text and layers can tell?"""
    from fedfleet.tasks import layers

    is_object = hasattr(thing, "state_dict") and not isinstance(thing, type)
    if stored.by == "layers":
        expected = layers.build_from(stored.layers)
        if not hasattr(expected, "state_dict"):
            return layers.describe_loss(thing) == stored.layers
        return repr(thing if is_object else thing()) == repr(expected)
    has_name = isinstance(thing, partial) or hasattr(thing, "__qualname__")
    entry, _ = describe_object(thing if has_name else type(thing), call=stored.call)
    if stored.by == "hand" or entry.by == "hand" or not entry.own or not stored.own:
        return True  # nothing is known that could be compared
    return (entry.own, entry.args, entry.kwargs) == (stored.own, stored.args, stored.kwargs)
