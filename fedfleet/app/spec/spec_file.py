"""Reading a spec file, and applying `key=value` overrides to it."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from fedfleet.app.spec.people import permit_numbers
from fedfleet.app.spec.resolution import DEFAULTS, PART_KINDS, resolve
from fedfleet.app.spec.spec_record import Spec
from fedfleet.core.errors import BadInput, nearest_file
from fedfleet.core.registry import names

# By policy, keys that resolved specs of older versions lack, with what such runs did.
_NEWER_KEYS: dict[str, dict[str, Any]] = {"semi_async": {"if_few": None}}


def load_spec(path: str | Path, overrides: Sequence[str] = ()) -> Spec:
    """Read a spec file, apply `key=value` words to it and resolve it."""
    return resolve(apply_overrides(read_table(path), overrides), Path(path).stem)


def spec_table(spec: Any, overrides: Sequence[Any] = ()) -> tuple[dict[str, Any], str]:
    """A spec as a person gives it in Python, by its file or as a nested table, with overrides; and the name of its runs.

    >>> spec_table({"stop": {"rounds": 9}}, ["stop.rounds=2"])
    ({'stop': {'rounds': 2}}, 'run')
    """
    for override in overrides:
        if isinstance(override, Mapping):
            words = ", ".join(repr(f"{key}={value}") for key, value in cast("Mapping[Any, Any]", override).items())
            raise BadInput(f"overrides are text, not a dictionary; write {words or repr('KEY=VALUE')}")
        if not isinstance(override, str):
            raise BadInput(f'{override!r} is not an override; write "KEY=VALUE" in quotes, for example "pace.cohort=20"')
    if isinstance(spec, Mapping):
        return apply_overrides(plain_table(cast("Mapping[Any, Any]", spec)), overrides), "run"
    if not isinstance(spec, str | Path):
        problem = f"{type(spec).__name__!r} is not a spec"
        raise BadInput(f"an object of type {problem}; give the path of a spec file, or the same as a nested dictionary")
    if isinstance(spec, str) and "\n" in spec.strip():
        raise BadInput(
            "the spec is text of several lines, and a spec is given by the path of its file; save the text in a file, or give "
            "tomllib.loads(text)"
        )
    return apply_overrides(read_table(spec), overrides), Path(spec).stem


def plain_table(table: Mapping[Any, Any], where: str = "") -> dict[str, Any]:
    """A table as a file could hold it: numbers and arrays of numpy become Python's, tuples lists, paths text.

    >>> import numpy
    >>> plain_table({"seed": numpy.int64(3), "world": {"split": (6, 2, 2)}})
    {'seed': 3, 'world': {'split': [6, 2, 2]}}
    """
    for key in table:
        if not isinstance(key, str):
            raise BadInput(f"{where or 'the spec'} has the key {key!r}; keys are text, in quotes")
    return {key: _plain_value(value, f"{where}.{key}" if where else key) for key, value in table.items()}


def _plain_value(value: Any, where: str) -> Any:
    if isinstance(value, Mapping):
        return plain_table(cast("Mapping[Any, Any]", value), where)
    if isinstance(value, list | tuple):
        return [_plain_value(one, where) for one in cast("Sequence[Any]", value)]
    if isinstance(value, Path):
        return str(value)
    return value.tolist() if hasattr(value, "dtype") and hasattr(value, "tolist") else value


def read_table(path: str | Path) -> dict[str, Any]:
    """A spec file as it is. In the folder of a run, what an older version could not write means what it meant then."""
    path = Path(path).expanduser()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        of_run = path.name == "spec.toml" and (path.parent / "run.db").is_file()
        return with_older_meaning(table) if of_run else table
    except FileNotFoundError:
        order = "; the spec file comes first, overrides after it" if "=" in path.name else ""
        raise BadInput(f"there is no spec file {path}{order or nearest_file(path) or _named_part(path.name)}") from None
    except IsADirectoryError:
        raise BadInput(f"{path} is a folder; give a spec file, for example {path / 'spec.toml'}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the spec {path}: {error}") from None
    except (ValueError, RecursionError) as error:  # also of numbers with thousands of digits
        raise BadInput(_other_format(path) or f"the spec {path} is not valid TOML: {error}") from None


def _named_part(word: str) -> str:
    """A hint that a word is the name of a part, which a spec has as a setting; "" of others."""
    for key, kind in PART_KINDS.items():
        if word in names(kind):
            return f"; {word} is a name for {key}.use: give a spec and {key}.use={word}"
    return ""


def _other_format(path: Path) -> str:
    """The sentence about a spec whose name says that it is in another format; "" of others."""
    found = {".yaml": "YAML", ".yml": "YAML", ".json": "JSON", ".py": "Python"}.get(path.suffix.lower(), "")
    return (
        found
        and f"the spec {path} is {found}, and specs are TOML, with lines such as stop.rounds = 10; write it so in {path.stem}.toml"
    )


def with_older_meaning(table: dict[str, Any]) -> dict[str, Any]:
    """A resolved spec with keys that are newer than it is: they mean what such runs did. It has all others."""
    pace, world = table.get("pace"), table.get("world")
    result = {**table, "pace": _with_older_pace(pace)} if isinstance(pace, dict) else dict(table)
    if isinstance(world, dict) and isinstance(world.get("data"), dict):
        # A run took any number of clients, whatever the number of people.
        result["world"] = {**world, "data": permit_numbers(world["data"])}
    return result


def _with_older_pace(pace: dict[str, Any]) -> dict[str, Any]:
    """The pace of a finished or begun run, and those inside it, with keys that are newer than the run."""
    inner = {key: _with_older_pace(value) if isinstance(value, dict) else value for key, value in pace.items()}
    return {**_NEWER_KEYS.get(str(pace.get("use")), {}), **inner}


def apply_overrides(table: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The table with `a.b=value` words applied; a value that is not valid TOML is taken as text.

    A word that changes `use` replaces the part: what the table said about the one before goes.
    """
    if "=" in overrides:
        at = list(overrides).index("=")
        joined = "".join(overrides[max(at - 1, 0) : at + 2])
        raise BadInput(f"'=' stands alone: write KEY=VALUE without spaces, as in {joined}")
    return _apply_settings(table, map(_parse_override, overrides))


def set_values(table: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The table with values set under dotted keys, by the rules of `apply_overrides`.

    >>> set_values({"pace": {"use": "readiness", "cohort": 4}}, {"pace.use": "deadline", "pace.seconds": 60.0})
    {'pace': {'use': 'deadline', 'seconds': 60.0}}
    """
    return _apply_settings(table, ((key, _path(key, key), value) for key, value in values.items()))


def _apply_settings(table: dict[str, Any], settings: Iterable[tuple[str, list[str], Any]]) -> dict[str, Any]:
    table = copy.deepcopy(table)
    for override, key, value in sorted(settings, key=lambda w: _depth(w[1])):
        place = table
        *path, last = key
        for part in path:
            inner = place.get(part, {})
            place[part] = {"use": inner} if isinstance(inner, str) else inner  # a bare name stands for its part
            place = place[part]
            if not isinstance(place, dict):
                raise BadInput(f"{override!r}: {part!r} holds a value, not a table, so it has no key to set")
        if last == "use" and place.get("use", DEFAULTS.get(".".join(path))) != value:
            place.clear()  # another part: the settings of the one before are none of its own
        place[last] = copy.deepcopy(value)
    return table


def _parse_override(override: str) -> tuple[str, list[str], Any]:
    key, equals, text = override.partition("=")
    path = _path(key, override) if equals else _path("", override)
    try:
        value = tomllib.loads(f"v = {text}")["v"]
    except (ValueError, KeyError, RecursionError):
        return override, path, text
    # A part may be called nan, which is a number in TOML.
    return override, path, text if path[-1] == "use" and not isinstance(value, str) else value


def _path(key: str, override: str) -> list[str]:
    path = key.split(".")
    if not all(path):
        colon = ":" in override and "=" not in override
        example = override.replace(":", "=", 1).replace(" ", "") if colon else "pace.cohort=20"
        raise BadInput(f"{override!r} is not an override; write KEY=VALUE, for example {example}")
    return path


def _depth(key: list[str]) -> int:
    """Words that replace a part come before words that set its keys, in whatever order they were given."""
    return len(key) - (key[-1] == "use")
