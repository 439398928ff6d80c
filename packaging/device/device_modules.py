"""Which modules of FedFleet a device imports: those that its command and the parts of a client's half reach.

Imports inside functions count too. A module is left out if loading it needs a package that the wheel does not bring, such as
PyTorch: it can only be reached from inside a function, for work that such a device refuses.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
# What the wheel brings or an extra of it adds: these may be imported when a module is loaded.
PRESENT = frozenset({"numpy", "google", "grpc"})
COMMAND = "fedfleet.app.cli.device_command"
# The verb that the command carries out, which it names in the table of verbs, and the kinds of parts in a client's configuration.
CALL = "fedfleet.app.api.device"
KINDS = ("algorithms", "folds", "codecs", "attacks", "privacy")


@dataclass(frozen=True, slots=True)
class Imports:
    """What a module imports: while it is loaded, and later or only if it is there."""

    loading: frozenset[str]
    later: frozenset[str]


def device_modules(root: Path = ROOT) -> dict[str, Path]:
    """The modules of the wheel, by name."""
    known = modules_of(root)
    imports = {name: read_imports(path, known) for name, path in known.items()}
    left_out = {name for name in known if missing_packages(name, imports)}
    result, waiting = dict[str, Path](), [COMMAND, CALL, *part_modules(root)]
    while waiting:
        name = waiting.pop()
        if name in result or name not in known or name in left_out:
            continue
        result[name] = known[name]
        waiting += [*imports[name].loading, *imports[name].later, *parents(name)]
    for name in (COMMAND, CALL, *part_modules(root)):
        if name not in result:
            raise SystemExit(f"{name} needs {sorted(missing_packages(name, imports))}, which a small device does not have")
    return dict(sorted(result.items()))


def modules_of(root: Path) -> dict[str, Path]:
    """All modules of FedFleet, by name."""
    result = dict[str, Path]()
    for path in (root / "fedfleet").rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        result[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return result


def part_modules(root: Path) -> list[str]:
    """The modules of all parts that a client's configuration may name, as the registry has them."""
    tree = ast.parse((root / "fedfleet/core/registry.py").read_text(encoding="utf-8"))
    table = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "_MODULES"
    )
    assert table is not None
    return [f"fedfleet.{module}" for kind, modules in ast.literal_eval(table).items() if kind in KINDS for module in modules]


def missing_packages(name: str, imports: Mapping[str, Imports]) -> set[str]:
    """The packages that loading a module needs, and the wheel does not bring."""
    result, seen, waiting = set[str](), set[str](), [name]
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        if module in imports:
            waiting += [*imports[module].loading, *parents(module)]
        elif module.partition(".")[0] not in PRESENT | sys.stdlib_module_names:
            result.add(module.partition(".")[0])
    return result


def parents(module: str) -> list[str]:
    """The packages around a module, which are loaded before it.

    >>> parents("a.b.c")
    ['a', 'a.b']
    """
    parts = module.split(".")
    return [".".join(parts[:i]) for i in range(1, len(parts))]


def read_imports(path: Path, known: Iterable[str]) -> Imports:
    """What a module imports."""
    loading, later, names = set[str](), set[str](), frozenset(known)
    for node, late in _import_nodes(ast.parse(path.read_text(encoding="utf-8")), late=False):
        place = later if late else loading
        if isinstance(node, ast.Import):
            place.update(alias.name for alias in node.names)
        else:
            module = node.module or ""
            place.update(inner if (inner := f"{module}.{alias.name}") in names else module for alias in node.names)
    return Imports(frozenset(loading), frozenset(later))


def _import_nodes(node: ast.AST, *, late: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import, and whether it happens after loading or may fail; those for type checkers alone are none."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, late
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from _import_nodes(ast.Module([other], []), late=late)
        else:
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            optional = isinstance(child, ast.Try) and any("ImportError" in ast.unparse(h.type) for h in child.handlers if h.type)
            yield from _import_nodes(child, late=late or function or optional)


if __name__ == "__main__":
    sys.stdout.write("".join(f"{name}\n" for name in device_modules()))
