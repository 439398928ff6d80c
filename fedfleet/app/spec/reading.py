"""Reading a spec file, and applying `key=value` overrides to it."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedfleet.app.spec.record import Spec
from fedfleet.app.spec.resolving import resolve
from fedfleet.core.errors import BadInput


def load_spec(path: str | Path, words: Sequence[str] = ()) -> Spec:
    """Read a spec file, apply `key=value` words to it and resolve it."""
    return resolve(with_words(read_table(path), words), Path(path).stem)


def read_table(path: str | Path) -> dict[str, Any]:
    """A spec file as it is."""
    path = Path(path)
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise BadInput(f"there is no spec file {path}") from None
    except IsADirectoryError:
        raise BadInput(f"{path} is a folder; give a spec file, for example {path / 'spec.toml'}") from None
    except (OSError, UnicodeDecodeError) as wrong:
        raise BadInput(f"cannot read the spec {path}: {wrong}") from None
    except tomllib.TOMLDecodeError as wrong:
        raise BadInput(f"the spec {path} is not valid TOML: {wrong}") from None


def with_words(table: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """The table with `a.b=value` words applied; a value that is not valid TOML is taken as text."""
    table = copy.deepcopy(table)
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not all(key.split(".")):
            raise BadInput(f"{word!r} is not an override; write KEY=VALUE, for example pace.cohort=20")
        try:
            value = tomllib.loads(f"v = {text}")["v"]
        except tomllib.TOMLDecodeError:
            value = text
        place = table
        *path, last = key.split(".")
        for part in path:
            inner = place.get(part, {})
            place[part] = {"use": inner} if isinstance(inner, str) else inner  # a bare name stands for its part
            place = place[part]
            if not isinstance(place, dict):
                raise BadInput(f"{word!r}: {part!r} holds a value, not a table, so it has no key to set")
        place[last] = value
    return table
