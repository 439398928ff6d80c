"""The form of a new run: its fields, the spec that they make, and the program's own sentences beside the fields they are about."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedfleet.app.spec.resolution import resolve
from fedfleet.app.spec.spec_file import apply_overrides
from fedfleet.app.spec.spec_record import Spec
from fedfleet.core.errors import BadInput
from fedfleet.world.bases import LOADERS

NAME, TOML = "name", "toml"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SUGGESTION = re.compile(r"did you mean '([^']+)'\?")
_UNKNOWN_NAME = re.compile(r"(?:has no key|has no table or key|is called) '([^']+)'")
_NO_KEY = re.compile(r"(\S+) has no key '([^']+)'")
_LONGEST = 20_000  # characters of TOML
_MOST_FAULTS = 8
_PATH_KEYS = ("path", "base", "backbone")  # that take a name or a file
_BY_NAME = ("builtin", "fsreal")  # bases that need no file
_PATH_MARKS = ("/", "\\", "~", "..", "\0")
_REMOTE_KEYS = ("run.ray_address",)  # that name another machine


@dataclass(frozen=True, slots=True)
class Field:
    """One line of the form: a key of the spec, the kind of part that it names if it does, and what it means."""

    key: str
    hint: str = ""
    kind: str = ""
    number: bool = False


FIELDS = (
    Field("seed", "decides fleet, data and training", number=True),
    Field("task.use", "a model on a dataset", "tasks"),
    Field("world.clients", "clients, one device each", number=True),
    Field("world.devices.use", "how fast they are", "devices"),
    Field("world.states.use", "when they can be reached", "states"),
    Field("world.data.use", "who holds what", "partitions"),
    Field("algorithm.use", "how it is learnt", "algorithms"),
    Field("algorithm.lr", "learning rate", number=True),
    Field("choose.use", "who is asked", "selectors"),
    Field("pace.use", "how long a round waits", "policies"),
    Field("pace.cohort", "clients asked in a round", number=True),
    Field("pace.seconds", "how long a round stays open, in seconds", number=True),
    Field("stop.rounds", "rounds at most", number=True),
)
KEYS = tuple(f.key for f in FIELDS)


@dataclass(frozen=True, slots=True)
class Mistake:
    """A sentence about one field; `wrong` and `right` are what a button would mend."""

    text: str
    wrong: str = ""
    right: str = ""


@dataclass(frozen=True, slots=True)
class FormCheck:
    """What the form asks for: the spec if there is nothing to mend, else a mistake by field."""

    values: Mapping[str, str]
    spec: Spec | None = None
    mistakes: Mapping[str, Mistake] = field(default_factory=dict[str, Mistake])


def check_form(values: Mapping[str, str], root: Path, base_folder: Path) -> FormCheck:
    """Check a filled form. A field that is wrong is set aside, so that the others are heard too."""
    entries = {key: values.get(key, "").strip() for key in (NAME, TOML, *KEYS)}
    mistakes = _check_name(entries[NAME], root)
    spec: Spec | None = None
    remaining, skipped = dict(entries), list[str]()
    for _ in range(_MOST_FAULTS):
        try:
            spec = resolve(_spec_table(remaining, skipped), entries[NAME] or "run")
            refuse_foreign(spec.table(), root, base_folder)
            break
        except BadInput as error:
            spec = None
            at, mistake = locate_mistake(str(error), remaining)
            mistakes.setdefault(at, mistake)
            if not remaining.get(at):
                break
            remaining[at] = ""
            skipped += [at.removesuffix(".use")] if at.endswith(".use") else []  # settings of a part that is not there
    return FormCheck(entries, None if mistakes else spec, mistakes)


def locate_mistake(sentence: str, values: Mapping[str, str]) -> tuple[str, Mistake]:
    """The field that a sentence is about, and its cure; the free text if it is about none that is filled in."""

    def position(key: str) -> int:
        match = re.search(rf"(?<![\w.]){re.escape(key)}(?![\w.]*\w)", sentence)
        return match.start() if match else -1

    suggestion, unknown_name = _SUGGESTION.search(sentence), _UNKNOWN_NAME.search(sentence)
    mistake = Mistake(sentence, unknown_name[1] if unknown_name else "", suggestion[1] if suggestion else "")
    unknown = _NO_KEY.match(sentence)
    if unknown:
        key = f"{unknown[1]}.{unknown[2]}"
        return (key if values.get(key) else TOML), mistake
    places = [(at, key) for key in KEYS if values.get(key) and (at := position(key)) >= 0]
    if not places:  # the table is named, the key is not: it is about the part
        parts = [key for key in KEYS if key.endswith(".use") and sentence.startswith(key.removesuffix(".use"))]
        places = [(0, key) for key in sorted(parts, key=len)[-1:] if values.get(key)]
    return (min(places)[1] if places else TOML), mistake


def _check_name(name: str, root: Path) -> dict[str, Mistake]:
    if not _NAME.fullmatch(name):
        rule = "A name has letters, digits, dots, dashes and underscores, 64 at most; it names the folder of the run."
        return {NAME: Mistake(rule)}
    if (root / name).exists():
        return {NAME: Mistake(f"There is a run called {name} already; choose another name.")}
    return {}


def _spec_table(entries: Mapping[str, str], skipped: Sequence[str] = ()) -> dict[str, Any]:
    """The free text with the fields on top of it, without the parts that are set aside."""
    if len(entries[TOML]) > _LONGEST:
        raise BadInput(f"the text has {len(entries[TOML]):,} characters; the limit is {_LONGEST:,}")
    try:
        free = tomllib.loads(entries[TOML].replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"this is not valid TOML: {error}") from None
    for part in skipped:
        free = _take_value(free, part.split("."))[0]
    used_keys = [key for key in KEYS if entries[key] and key.rpartition(".")[0] not in skipped]
    for key in used_keys:
        *part, last = key.split(".")
        if last == "use":
            _set_part(free, part, entries[key])
    return apply_overrides(free, [f"{key}={entries[key]}" for key in used_keys])


def _set_part(table: dict[str, Any], part: list[str], name: str) -> None:
    """Settings in the free text that do not say whose they are belong to the part that the field names."""
    for step in part:
        inner = table.get(step)
        if not isinstance(inner, dict):
            return
        table = inner
    table.setdefault("use", name)


def fill_form(table: Mapping[str, Any], name: str) -> dict[str, str]:
    """The form as it would ask for a run again: fields from its spec, and what has no field as TOML.

    The names of parts stand in both: another part in its field does not keep the settings of the first.
    """
    import tomli_w

    rest = {key: value for key, value in table.items() if key != "run"}
    values = {NAME: name}
    for key in KEYS:
        reduced, value = _take_value(rest, key.split("."))
        rest = rest if key.endswith(".use") else reduced
        if value is not None:
            values[key] = f"{value:g}" if isinstance(value, float) else str(value)
    return {**values, TOML: tomli_w.dumps(rest)}


def _take_value(table: Mapping[str, Any], path: list[str]) -> tuple[dict[str, Any], Any]:
    """A table without one value, and the value."""
    first, *more = path
    if first not in table:
        return dict(table), None
    if not more:
        return {k: v for k, v in table.items() if k != first}, table[first]
    if not isinstance(table[first], Mapping):
        return dict(table), None
    inner, value = _take_value(table[first], more)
    return {**table, first: inner}, value


def refuse_foreign(table: Mapping[str, Any], root: Path, base_folder: Path) -> None:
    """Refuse a resolved spec that reads files outside `root`, names another machine, or brings code of its own.

    Whoever has the page may start runs, not read the disk: a file's content could be told from the errors about it. `here` is where
    relative paths begin.
    """
    here = "a run that is started on this page"
    for key, value in _strings(table):
        if key == "task.use" and value == "own":
            raise BadInput(f"{key}: {here} must use a registered task; run a model of your own from Python")
        if key in _REMOTE_KEYS or (key == "run.execute" and value == "ray"):
            raise BadInput(f"{key}: {here} cannot use a cluster; start this run with: fedfleet run SPEC --ray-address ..")
        if _is_file(key, value, base_folder) and not _is_inside(value, root, base_folder):
            raise BadInput(
                f"{key}: {value!r} is outside the folder of the runs, and this page may read files only there; "
                "copy the file there and give its full path, or start this run with: fedfleet run SPEC"
            )


def _is_file(key: str, value: str, base_folder: Path) -> bool:
    if any(mark in value for mark in _PATH_MARKS):
        return True
    if key.rpartition(".")[2] not in _PATH_KEYS:
        return False
    prefix, colon, path = value.partition(":")
    if colon and prefix in LOADERS:
        return bool(path)  # without one, a loader reads its published files, wherever those were put
    return bool(colon) or "." in value or (value not in _BY_NAME and (base_folder / value).exists())


def _is_inside(value: str, root: Path, base_folder: Path) -> bool:
    prefix, _, path = value.partition(":")
    parts = (path if prefix in LOADERS else value).split("#")  # some loaders take two files: TIMERS#IDS
    try:
        return all((base_folder / part).resolve().is_relative_to(root.resolve()) for part in parts)
    except (OSError, ValueError, RuntimeError):
        return False


def _strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _strings(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from _strings(inner, f"{key}[{i}]")
    elif isinstance(value, str):
        yield key, value
