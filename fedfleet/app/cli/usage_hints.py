"""Hints for words that the command line does not know: options and verbs of other tools, with what was typed filled in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

# Options of other tools, and those of FedFleet that mean the same; {} is the value that was typed.
_OPTIONS = {
    "--out {}": ("output", "output_dir", "out_dir", "logdir", "log_dir", "save_dir", "save_path", "save"),
    "--address 127.0.0.1:{}": ("port",),
    "--address {}:50051": ("host",),
    "--json": ("format",),
    "--label {}": ("target", "target_column", "label_column", "labels", "y"),
    "--owner {}": ("user", "person", "group", "groups", "client_column", "client_id", "owner_column"),
    "--input {}": ("features", "feature", "inputs", "columns", "x"),
    "--drop {}": ("exclude", "ignore", "drop_columns", "ignore_columns"),
    "--time {}": ("timestamp", "date", "time_column"),
}
_COLUMN_OPTIONS = ("--label {}", "--owner {}", "--input {}", "--drop {}", "--time {}")
_SPEC_FILES = ("config", "cfg", "conf", "config_file", "config_path", "spec", "file", "yaml", "toml")
# Verbs of other tools, and what does the same here.
_VERBS = {
    "fedfleet run SPEC": ("train", "start", "simulate", "simulation", "launch", "fit", "execute", "go", "exec"),
    "fedfleet run SPEC --check": ("check", "validate", "lint", "dry-run"),
    "fedfleet report RUN": ("plot", "show", "results", "evaluate", "eval", "test", "summary", "view"),
    "fedfleet study FILE": ("sweep", "grid", "benchmark", "experiment", "ablation"),
    "fedfleet tune SPEC": ("search", "hpo", "optimize", "optimise"),
    "fedfleet serve SPEC": ("server", "superlink"),
    "fedfleet device --server HOST:PORT": ("client", "supernode", "worker", "join"),
    "fedfleet data NAME": ("download", "fetch", "datasets", "dataset"),
    "fedfleet dashboard RUNS": ("ui", "gui", "web"),
    "fedfleet demo": ("new", "init", "create", "quickstart", "example", "tutorial"),
    "fedfleet list KIND": ("ls", "algorithms", "methods", "tasks", "selectors", "policies", "models"),
    "fedfleet --help": ("help",),
    "fedfleet version": ("--version", "-v", "-V"),
}


def option_hint(option: str, context: Any, words: Sequence[str]) -> str:
    """What to write instead of an option that the verb does not have; "" if nobody knows."""
    name = option.lstrip("-").replace("-", "_").lower()
    if context is None or context.parent is None:
        return verb_hint([option], ())
    known = {opt for parameter in context.command.params for opt in parameter.opts}
    value = typed_value(option, words)
    takes_spec = any(parameter.name == "overrides" for parameter in context.command.params)
    start = f"no such option: {option}"
    for right, others in _OPTIONS.items():
        if right in _COLUMN_OPTIONS and (not any(word.partition("=")[0] == "--data" for word in words) or _is_number(value)):
            continue  # without data there are no columns, and a number is a goal or a count
        if name in others and right.split()[0] in known:
            return f"{start}; did you mean {right.format(value)}?"
    if not takes_spec:
        return ""
    if name in _SPEC_FILES:
        file = "spec.toml" if value == "VALUE" else value
        return f"{start}; the spec file comes first, without an option, and is TOML: {context.command_path} {_as_toml(file)}"
    from fedfleet.app.spec.foreign_names import where_listed
    from fedfleet.app.spec.key_places import settings_for

    settings = settings_for(name, value)
    if not settings:
        return ""
    listed = where_listed(settings[0])
    cure = f"to change a value of the spec, write it after the spec file, without dashes: {' or '.join(settings)}"
    return f"{start}; {cure}" + (f" (names: {listed})" if listed else "")


def verb_hint(words: Sequence[str], verbs: Collection[str]) -> str:
    """What does here what a verb of another tool does; "" if nobody knows, or if it is a verb here."""
    word = next((word for word in words if word), "")
    if word in verbs:
        return ""
    for right, others in _VERBS.items():
        if word in others or word.lower() in others:
            return f"no such command: {word}; did you mean: {right}?"
    return ""


def argument_hint(context: Any) -> str:
    """What a verb needs that was typed alone."""
    arguments = [p.metavar or p.name.upper() for p in context.command.params if p.param_type_name == "argument" and p.required]
    example = " ".join(arguments).replace("SPEC", "spec.toml")
    spec = "; fedfleet demo writes an example, and docs/how-to/first-run.md explains one" if "SPEC" in arguments else ""
    return f"{context.command_path} needs {' and '.join(arguments)}: {context.command_path} {example}{spec}" if arguments else ""


def typed_value(option: str, words: Sequence[str]) -> str:
    """What was typed for an option, as --lr=0.1 or --lr 0.1.

    >>> typed_value("--lr", ["run", "--lr", "0.1"]), typed_value("--lr", ["--lr=0.1"]), typed_value("--cuda", ["--cuda", "--x"])
    ('0.1', '0.1', 'VALUE')
    """
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name == option:
            typed = value if equals else following
            return "VALUE" if not typed or typed.startswith("--") else typed
    return "VALUE"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_toml(path: str) -> str:
    """The name that a spec in another format has as TOML."""
    stem, dot, end = path.rpartition(".")
    return f"{stem}.toml" if dot and end in ("yaml", "yml", "json", "ini", "cfg") else path
