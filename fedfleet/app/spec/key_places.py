"""Where keys belong: the table that has a key which somebody wrote into another one, or without any, or in the words of others."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from typing import Any

from fedfleet.app.spec.foreign_names import key_for
from fedfleet.app.spec.resolution import DEFAULTS, PART_KINDS, run_settings, world_settings
from fedfleet.app.spec.spec_record import TABLES
from fedfleet.app.spec.table_checks import UnknownKey, builder_of, is_spec_type
from fedfleet.core.errors import suggest_name
from fedfleet.core.records import Stop
from fedfleet.core.registry import names, parameters

_PLAIN = {"stop": Stop, "world": world_settings, "run": run_settings}
# Where people look first, if several tables have a key.
_ORDER = ("pace", "world.data", "world.states", "world.devices", "algorithm", "choose")
_INSIDE = {"algorithm.private": "privacy"}
_OF_STUDIES = ("base", "runs", "grid", "baseline", "analysis", "draws", "scale")
_PLACES_SHOWN, _PARTS_SHOWN, _CLOSE = 3, 3, 0.75


def key_places(name: str) -> dict[str, tuple[str, ...]]:
    """All keys with this last word, and for each the parts that have it; none for [stop], [world] and [run]. Where tables or parts
    have it that a spec has by default, the others are left out.

    >>> list(key_places("lr")), list(key_places("rounds")), list(key_places("no"))
    (['algorithm.lr'], ['stop.rounds'], [])
    """
    plain = {f"{table}.{name}": () for table, schema in _PLAIN.items() if name in parameters(schema)}
    found = {f"{table}.{name}": parts for table, parts in _parts_by_key().get(name, {}).items()}
    default = {key: parts for key, parts in found.items() if DEFAULTS.get(key.rpartition(".")[0]) in parts}
    return {**plain, **default} or found


@cache
def _parts_by_key() -> dict[str, dict[str, tuple[str, ...]]]:
    """By the last word of a key: the tables that have it, and the parts that have it there."""
    result: dict[str, dict[str, tuple[str, ...]]] = {}
    kinds = {**PART_KINDS, **_INSIDE}
    for table in sorted(kinds, key=lambda key: _ORDER.index(key) if key in _ORDER else len(_ORDER)):
        for part in names(kinds[table]):
            for name, (hint, _) in parameters(builder_of(kinds[table], part)).items():
                if is_spec_type(hint):
                    places = result.setdefault(name, {})
                    places[table] = (*places.get(table, ()), part)
    return result


def dotted_key(name: str) -> str | None:
    """The key that somebody means who leaves its table out; None if no table has it, or if it is a table itself. What no default
    part has may be a key of another part.

    >>> dotted_key("rounds"), dotted_key("lr"), dotted_key("cohort"), dotted_key("clients"), dotted_key("seed"), dotted_key("x")
    ('stop.rounds', 'algorithm.lr', 'pace.cohort', 'world.clients', 'seed', None)
    >>> dotted_key("mu"), dotted_key("alpha"), dotted_key("epsilon")
    ('algorithm.mu', 'world.data.alpha', 'algorithm.private.epsilon')
    """
    if name in TABLES:
        return name if name == "seed" else None
    return next(iter(key_places(name)), None)


def settings_for(name: str, value: str = "VALUE") -> list[str]:
    """What to write for a setting that was named without its table, or as another tool calls it: KEY=VALUE, the likeliest first.

    >>> settings_for("lr", "0.1"), settings_for("batch_size", "32"), settings_for("seed", "3"), settings_for("nothing")
    (['algorithm.lr=0.1'], ['algorithm.batch=32'], ['seed=3'], [])
    """
    if name == "seed":
        return [f"seed={value}"]
    foreign = key_for(name, value)
    places = [] if name in TABLES else [f"{key}={value}" for key in key_places(name)]
    # What ends as a word of another tool is none of ours, such as the model of a part.
    return [foreign] if foreign else places[:_PLACES_SHOWN]


def misplaced_key(wrong: UnknownKey) -> str:
    """The sentence about a key that its table has not: where it belongs, or the nearest name."""
    start = f"{wrong.where} has no key {wrong.key!r}" if wrong.where else f"the spec has no table or key {wrong.key!r}"
    if not wrong.where and wrong.key in _OF_STUDIES:
        return f"{start}, which belongs to a study; run a study file with: fedfleet study FILE"
    if difflib.get_close_matches(wrong.key, wrong.known, n=1, cutoff=_CLOSE):
        return f"{start}{suggest_name(wrong.key, wrong.known)}"
    here = key_places(wrong.key).get(f"{wrong.where}.{wrong.key}")
    if here:
        more = f" and {len(here) - _PARTS_SHOWN} more" if len(here) > _PARTS_SHOWN else ""
        parts = f"{', '.join(here[:_PARTS_SHOWN])}{more}"
        return f"{start}, which belongs to {parts}; choose one of them with {wrong.where}.use, or leave the key out"
    settings = settings_for(wrong.key, _short(wrong.value))
    if settings:
        return f"{start}; did you mean {' or '.join(settings)}?"
    return f"{start}{suggest_name(wrong.key, wrong.known)}"


def _short(value: Any) -> str:
    """A value as one writes it; what takes many words is left to the person."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return ".." if isinstance(value, Mapping | list) or len(text) > 30 else text
