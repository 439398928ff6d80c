"""How easy the source is to find one's way in, in numbers: `python -m benchmarks.house [--at REVISION] [--list NAME] [--json]`.

It reads the source alone and imports nothing of it, so that any revision of the repository can be measured with today's rules.
Files that an update crosses are counted by running one: `python -m benchmarks.update_path`.

A module that one other module imports, in the same package, is perhaps a piece of it that was cut off. It is not where that other
module is a table of parts: one that declares no function and no class, and only gives names to what it imports, as `learn.zoo` does
with one module for each method. Such entries are counted apart (`table_entries_with_one_importer_beside_them`).
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import tarfile
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]

# Words that end like a gerund or a participle and are nouns or adjectives of their own.
NOUNS = {
    "string", "thing", "nothing", "ring", "king", "spring", "setting", "settings", "ping", "bring", "sibling", "ceiling",
    "speed", "seed", "need", "feed", "shed", "embed", "breed", "bed", "red", "led", "index", "hundred", "kind", "bound",
    "bounds", "round", "rounds", "ground", "background", "end", "legend", "backend", "frontend", "trend", "band", "stand",
    "command", "commands", "demand", "hand", "operand", "send", "append", "extend", "find", "blend", "cut", "set", "put",
    "output", "input", "read", "spread", "thread", "split", "reset", "offset", "dataset", "subset", "let", "hit", "cost",
    "cast", "cohort", "weight", "weights", "height", "right", "light", "night", "left", "drift", "shift", "gift", "draft",
    "children", "token", "often", "screen", "green", "seven", "eigen", "men", "then", "when", "open", "listen", "exceeded",
    "shard", "record", "word", "keyword", "standard", "dashboard", "guard", "card", "hazard", "backward", "forward", "child",
    "field", "fold", "hold", "threshold", "world", "build", "guild", "yield", "shield", "old", "cold", "bold", "method",
    "period", "pod", "node", "load", "upload", "payload", "download", "bad", "pad", "add", "odd", "head", "overhead",
    "ahead", "grid", "valid", "invalid", "id", "uid", "sigmoid", "solid", "mid", "hybrid", "fluid", "grad", "squad", "quad",
    "deal", "meet", "commit", "limit", "permit", "visit", "edit", "audit", "exit", "emit", "fit", "bit", "unit", "wait",
    "fraction", "action", "embedding", "encoding", "finding", "warning", "warnings", "timing", "timings", "building",
    "heading", "reading", "meaning", "opening", "ending", "being", "padding", "spacing", "rating", "briefing", "hearing",
    "supported", "unrelated", "lost", "test", "latest", "digest", "request", "best", "rest", "nearest", "manifest", "list",
    "checklist", "first", "last", "most", "almost", "host", "past", "fast", "least", "east", "broadcast", "burst", "cluster",
}  # fmt: skip
IRREGULAR = {
    "told", "said", "heard", "seen", "found", "given", "taken", "made", "done", "gone", "kept", "held", "sent", "spent",
    "shown", "known", "drawn", "written", "chosen", "begun", "broken", "met", "sold", "brought",
    "thought", "caught", "taught", "built", "dealt", "felt", "meant", "lent", "bent", "worn", "torn", "born", "sworn",
    "thrown", "grown", "flown", "blown", "forgotten", "gotten", "hidden", "ridden", "driven", "risen", "eaten", "beaten",
    "fallen", "stolen", "spoken", "woken", "frozen", "shaken", "mistaken", "begotten", "struck", "stuck", "hung", "sung",
    "spun", "won", "lain", "laid", "paid", "foreseen", "foretold", "withheld", "beheld", "upheld", "bound_to", "left_out",
    "worked_out", "sought", "bought", "fought", "stood", "understood", "withstood", "lit", "slain", "split_up", "led_by",
    "read_in", "cast_as", "unseen", "unknown", "unharmed", "unmade",
}  # fmt: skip


def is_gerund(word: str) -> bool:
    """Does a word end like a gerund, and is it no noun of its own?"""
    return word.endswith("ing") and len(word) > 4 and word not in NOUNS


def is_participle(word: str) -> bool:
    """Is a word a past participle, and no noun or verb of its own?"""
    return word in IRREGULAR or (word.endswith("ed") and len(word) > 3 and word not in NOUNS)


def source(folder: Path) -> list[Path]:
    """The modules that people wrote."""
    return sorted(path for path in folder.rglob("*.py") if "_pb2" not in path.name)


def module_of(folder: Path, path: Path) -> str:
    parts = path.relative_to(folder.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(tree: ast.AST, modules: set[str]) -> set[str]:
    """Modules of ours that a module imports, at its top or within its functions."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("fedfleet."):
            names.add(node.value.partition(":")[0])
    return names & modules


def fields_of(node: ast.ClassDef) -> int:
    """How many fields an object of a class has: declared in its body, or given to `self` by its methods."""
    names = {n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and getattr(part.value, "id", "") == "self":
            names.add(part.attr)
    return len(names)


def is_stateful(node: ast.ClassDef) -> bool:
    """Does a class hold state that changes? A frozen record or the schema of a file is a form with many boxes, not an object."""
    return any(
        isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and getattr(part.value, "id", "") == "self"
        for part in ast.walk(node)
    )


def is_table(tree: ast.Module) -> bool:
    """Does a module only give names to what it imports? Then each module that it imports is an entry, and no piece of it."""
    declared = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return not any(isinstance(node, declared) for node in ast.walk(tree))


def _head(module: str) -> str:
    """The word of a module's name that says what it is: the last one."""
    return module.split(".")[-1].split("_")[-1]


def measures(folder: Path) -> dict[str, list[str] | int | float | str]:
    """Every figure with the names behind it."""
    files = source(folder)
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in files]
    modules = {module_of(folder, path): path for path in files}
    named = [name for name, path in modules.items() if path.stem not in ("__init__", "__main__")]
    importers: dict[str, set[str]] = defaultdict(set)
    for name, path in modules.items():
        for target in imports_of(trees[path], set(modules)):
            if target != name:
                importers[target].add(name)
    homes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in named:
        parts = name.split(".")
        homes[(parts[1], parts[-1])].append(name)
    functions = [
        (node.name, f"{module_of(folder, path)}:{node.name}")
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    classes = [(fields_of(c), f"{module_of(folder, path)}:{c.name}") for path, tree in trees.items() for c in ast.walk(tree)
               if isinstance(c, ast.ClassDef) and is_stateful(c)]  # fmt: skip
    one_importer = [
        f"{name} <- {next(iter(importers[name]))}"
        for name in named
        if len(importers[name]) == 1 and next(iter(importers[name])).rpartition(".")[0] == name.rpartition(".")[0]
    ]
    entries = [line for line in one_importer if is_table(trees[modules[line.partition(" <- ")[2]]])]
    prefixes = {path: Counter(line.rstrip().endswith("# fmt: skip") for line in path.read_text().splitlines()) for path in files}
    return {
        "files": len(files),
        "lines": sum(lengths),
        "median_file": median(lengths),
        "files_over_350": [module_of(folder, p) for p, n in zip(files, lengths, strict=True) if n > 350],
        "files_under_40": [module_of(folder, p) for p, n in zip(files, lengths, strict=True) if n < 40 and p.stem != "__init__"],
        "modules_gerund_or_participle": [n for n in named if is_gerund(_head(n)) or is_participle(_head(n))],
        "names_used_twice_in_a_package": [" ".join(v) for v in homes.values() if len(v) > 1],
        "functions_bare_participle": [where for name, where in functions if "_" not in name.strip("_") and is_participle(name.strip("_"))],
        "modules_with_one_importer_beside_them": [line for line in one_importer if line not in entries],
        "table_entries_with_one_importer_beside_them": entries,
        "classes_over_15_fields": [f"{where} {n}" for n, where in sorted(classes, reverse=True) if n > 15],
        "fields_of_largest_object": max(classes)[0],
        "largest_object": max(classes)[1],
        "fmt_skip": sum(c[True] for c in prefixes.values()),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", help="a revision of this repository; default: the working tree")
    parser.add_argument("--list", help="print the names behind one figure")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = ROOT
        if asked.at:
            archive = subprocess.run(["git", "archive", asked.at, "fedfleet"], cwd=ROOT, capture_output=True, check=True)
            packed = Path(folder) / "tree.tar"
            packed.write_bytes(archive.stdout)
            with tarfile.open(packed) as tar:
                tar.extractall(folder, filter="data")
            tree = Path(folder)
        result = measures(tree / "fedfleet")
    if asked.list:
        value = result[asked.list]
        print("\n".join(value) if isinstance(value, list) else value)
        return
    counts = {name: len(value) if isinstance(value, list) else value for name, value in result.items()}
    if asked.json:
        print(json.dumps(counts, indent=2))
        return
    for name, value in counts.items():
        print(f"{name.replace('_', ' '):<40} {value}")


if __name__ == "__main__":
    main()
