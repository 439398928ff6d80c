"""The form of a new run: the spec that its fields make, and the program's own sentences beside the fields they are about."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedfleet.app.dashboard.spec_fields import (
    PART,
    PARTS,
    PLAIN_TABLES,
    SpecField,
    part_fields,
    plain_fields,
    seed_field,
)
from fedfleet.app.dashboard.spec_policy import refuse_foreign
from fedfleet.app.spec.people import DEFAULT_CLIENTS, deals_by_owner
from fedfleet.app.spec.resolution import DEFAULTS, PART_KINDS, resolve
from fedfleet.app.spec.spec_record import TABLES, Spec
from fedfleet.core.errors import BadInput

NAME, TOML = "name", "toml"
USE = ".use"
MAX_PARTS = 8  # in a list of parts
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SUGGESTION = re.compile(r"did you mean '([^']+)'\?")
_LIMIT = re.compile(r"must be at (?:least|most) (-?\d+(?:[,\d]*\d)?(?:\.\d+)?)$")
_UNKNOWN_NAME = re.compile(r"(?:has no key|has no table or key|is called) '([^']+)'")
_NO_KEY = re.compile(r"(\S+) has no key '([^']+)'")
_LONGEST = 20_000  # characters of TOML
_MOST_FAULTS = 8


@dataclass(frozen=True, slots=True)
class Mistake:
    """A sentence about one field; `wrong` and `right` are what a button would mend."""

    text: str
    wrong: str = ""
    right: str = ""


@dataclass(frozen=True, slots=True)
class FormCheck:
    """What the form asks for: the spec, or what to mend by field; `toml` is the spec as a person would write it."""

    values: Mapping[str, str]
    spec: Spec | None = None
    mistakes: Mapping[str, Mistake] = field(default_factory=dict[str, Mistake])
    toml: str = ""


def check_form(values: Mapping[str, str], root: Path, base_folder: Path) -> FormCheck:
    """Check a filled form. A field that is wrong is set aside, so that the others are heard too.

    Fields of parts that are not chosen are left out: the page may still hold those of the part before.
    """
    import tomli_w

    entries = {NAME: "", TOML: "", **{key: value.strip() for key, value in values.items()}}
    mistakes = _check_name(entries[NAME], root)
    spec: Spec | None = None
    toml = ""
    remaining, skipped = dict(entries), list[str]()
    for _ in range(_MOST_FAULTS):
        try:
            table = _spec_table(remaining, skipped)
            toml = toml or tomli_w.dumps(table)
            refuse_foreign(table, root, base_folder)  # before anything is read: data may be, to count the people in them
            spec = resolve(table, entries[NAME] or "run")
            refuse_foreign(spec.table(), root, base_folder)
            break
        except BadInput as error:
            spec = None
            at, mistake = locate_mistake(str(error), remaining)
            mistakes.setdefault(at, mistake)
            if not remaining.get(at):
                break
            remaining[at] = ""
            skipped += [at.removesuffix(USE)] if at.endswith(USE) else []  # settings of a part that is not there
    return FormCheck(entries, None if mistakes else spec, mistakes, toml)


def locate_mistake(sentence: str, values: Mapping[str, str]) -> tuple[str, Mistake]:
    """The field that a sentence is about, and its cure; the free text if it is about none that is filled in."""

    def position(key: str) -> int:
        match = re.search(rf"(?<![\w.]){re.escape(key)}(?![\w.\[]*\w)", sentence)
        return match.start() if match else -1

    suggestion, unknown_name, limit = _SUGGESTION.search(sentence), _UNKNOWN_NAME.search(sentence), _LIMIT.search(sentence)
    right = suggestion[1] if suggestion else limit[1].replace(",", "") if limit else ""
    mistake = Mistake(sentence, unknown_name[1] if unknown_name else "", right)
    unknown = _NO_KEY.match(sentence)
    if unknown:
        key = f"{unknown[1]}.{unknown[2]}"
        return (key if values.get(key) else TOML), mistake
    keys = [key for key, value in values.items() if value and key not in (NAME, TOML)]
    places = [(at, key) for key in keys if (at := position(key)) >= 0]
    if not places:  # the table is named, the key is not: it is about the part
        parts = [key for key in keys if key.endswith(USE) and sentence.startswith(key.removesuffix(USE))]
        places = [(0, key) for key in sorted(parts, key=len)[-1:]]
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
    for key in skipped:
        _take(free, key)
    fields: dict[str, Any] = {}
    for setting in (seed_field(), *(one for table in PLAIN_TABLES for one in plain_fields(table))):
        _put(fields, setting, entries)
    for key, kind in PART_KINDS.items():
        part = _part_table(key, kind, entries, skipped)
        if part and part != {"use": DEFAULTS.get(key)}:
            _set(fields, key, part)
    merged = _merge(free, fields)
    return {key: merged[key] for key in sorted(merged, key=lambda key: TABLES.index(key) if key in TABLES else len(TABLES))}


def _part_table(key: str, kind: str, entries: Mapping[str, str], skipped: Sequence[str]) -> dict[str, Any]:
    """The table of a part as its fields give it; {} if no part is chosen."""
    name = entries.get(f"{key}{USE}", "")
    if not name or key in skipped:
        return {}
    part: dict[str, Any] = {"use": name}
    try:
        settings = part_fields(kind, name, key)
    except BadInput:
        return part  # the check of the spec says the same
    for setting in settings:
        if setting.input == PART:
            inner = _part_table(setting.key, setting.part_kind, entries, skipped)
            part |= {setting.name: inner} if inner else {}
        elif setting.input == PARTS:
            places = (f"{setting.key}[{i}]" for i in range(MAX_PARTS))
            several = [one for place in places if (one := _part_table(place, setting.part_kind, entries, skipped))]
            part |= {setting.name: several} if several else {}
        else:
            _put(part, setting, entries, at=setting.name)
    return part


def _put(table: dict[str, Any], setting: SpecField, entries: Mapping[str, str], at: str = "") -> None:
    """Set a field that is filled in with something else than its default."""
    text = entries.get(setting.key, "")
    value = setting.value_of(text) if text else None
    if text and (setting.required or value != setting.default):
        _set(table, at or setting.key, value)


def _set(table: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    for step in path:
        table = table.setdefault(step, {})
    table[last] = value


def _merge(free: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables; where both have a value, that of the fields. Settings in the free text that do not say of which part they are
    belong to the part that the fields name; those of another part go."""
    result = dict(free)
    for key, value in fields.items():
        before = result.get(key)
        before = {"use": before} if isinstance(before, str) and isinstance(value, dict) else before
        if isinstance(value, dict) and isinstance(before, dict):
            other = "use" in value and before.get("use", value["use"]) != value["use"]
            result[key] = dict(value) if other else _merge(before, value)
        else:
            result[key] = value
    return result


def fill_form(table: Mapping[str, Any], name: str) -> dict[str, str]:
    """The form as it would ask for a run again: what its spec does not leave at its default, and what has no field as TOML."""
    import tomli_w

    rest: dict[str, Any] = copy.deepcopy({key: value for key, value in table.items() if key != "run"})
    values = {NAME: name}
    world = rest.get("world", {})
    data = world.get("data", {})
    if world.get("clients") == DEFAULT_CLIENTS and not (isinstance(data, dict) and deals_by_owner(data)):
        del world["clients"]  # as many as there are by default
    for setting in (seed_field(), *(one for table_name in ("world", "stop") for one in plain_fields(table_name))):
        _move(rest, setting.key, setting, values)
    for key, kind in PART_KINDS.items():
        part = _take(rest, key)
        left = _fill_part(key, kind, {"use": part} if isinstance(part, str) else part, values)
        if left:
            _set(rest, key, left)
    return {**values, TOML: tomli_w.dumps({key: value for key, value in rest.items() if value != {}})}


def _fill_part(key: str, kind: str, part: Any, values: dict[str, str]) -> Any:
    """Fill the fields of a part; what has none is given back."""
    if not isinstance(part, dict) or not isinstance(part.get("use"), str):
        return part
    values[f"{key}{USE}"] = part["use"]
    try:
        settings = part_fields(kind, part["use"], key)
    except BadInput:
        return {name: value for name, value in part.items() if name != "use"}
    rest = {name: value for name, value in part.items() if name != "use"}
    for setting in settings:
        if setting.input == PART:
            left = _fill_part(setting.key, setting.part_kind, rest.pop(setting.name, None), values)
            rest |= {setting.name: left} if left else {}
        elif setting.input == PARTS:
            several = rest.get(setting.name)
            if isinstance(several, list) and len(several) <= MAX_PARTS:
                left = [_fill_part(f"{setting.key}[{i}]", setting.part_kind, one, values) for i, one in enumerate(several)]
                if not any(left):
                    del rest[setting.name]
        else:
            _move(rest, setting.name, setting, values)
    return rest


def _move(rest: dict[str, Any], at: str, setting: SpecField, values: dict[str, str]) -> None:
    value = _take(rest, at)
    if value is not None and value != setting.default:
        values[setting.key] = setting.text_of(value)


def _take(table: dict[str, Any], key: str) -> Any:
    """Take a value out of a table; None if it has none."""
    *path, last = key.split(".")
    for step in path:
        inner = table.get(step)
        if not isinstance(inner, dict):
            return None
        table = inner
    return table.pop(last, None)
