"""Valid specs of every part, and mutations of them."""

import copy
import random
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from fedfleet.app.spec.resolution import run_settings, world_settings
from fedfleet.core.records import Stop
from fedfleet.core.registry import builder, names
from studies.user_layer import ALL, Cell, spec_of
from tests.app.specs import TINY
from tests.app.users import SPEC as USERS
from tests.mutations.values import hints_of, near_limits, wrong_value
from tests.testing.registered import fitting_task

ROOT = Path(__file__).parents[2]
SMALL = {"clients": 8, "data": "iid"}
PARTS = {
    "task": "tasks", "algorithm": "algorithms", "choose": "selectors", "pace": "policies", "edge": "edges",
    "algorithm.fold": "folds", "algorithm.attack": "attacks", "algorithm.private": "privacy",
    "world.devices": "devices", "world.states": "states", "world.data": "partitions", "world.users": "users",
}  # fmt: skip
NEEDED: dict[str, dict[str, Any]] = {
    "overcommit": {"policy": "readiness"},
    "only": {"ids": [0, 1, 2, 5]},
    "mobile": {"devices": "spread"},
    "equalled": {"devices": "spread"},
    "label_flip": {"of": "dirichlet"},
    "krum": {"f": 0},  # the cohorts here are small
    "multi_krum": {"f": 0},
    "gaussian": {"cohort": 3},
    "tree": {"cohort": 3},
    "device_file": {"path": "devices.json"},
    "state_file": {"path": "states.json"},
}
LIGHT = ("digits_logreg", "digits_mlp", "digits_cnn", "logreg", "twitter_logreg", "har_cnn", "mlp")


@cache
def valid_specs() -> tuple[dict[str, Any], ...]:
    """Specs of the examples, the pages and the studies, and one for every part, each made small."""
    texts = [TINY, USERS, *(p.read_text() for p in sorted((ROOT / "examples").glob("*.toml")))]
    for page in sorted(ROOT.glob("docs/**/*.md")):
        texts += re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.M | re.S)
    result = [tomllib.loads(text) for text in texts]
    result += [spec_of(Cell("digits", "2-5", arm, 0, 60, "cpu")) for arm in ALL]
    for place, kind in PARTS.items():
        for name in names(kind):
            spec: dict[str, Any] = {"world": dict(SMALL)}
            if place == "edge":
                spec["world"]["users"] = {"use": "groups", "count": 3}
            put(spec, place, {"use": name, **NEEDED.get(name, {})})
            if kind == "algorithms":
                spec["task"] = dict(fitting_task(name))
            if kind == "tasks" and "synthetic" in hints_of(builder(kind, name)):
                spec["task"] |= {"synthetic": True, "samples": 300}
            result.append(spec)
    alone = [s for s in result if s.get("run", {}).get("execute") != "ray"]  # starting a cluster takes longer than a case may
    return tuple(small(spec) for spec in alone)


def small(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec with little work: few rounds, few clients, a small cohort."""
    spec = copy.deepcopy(spec)
    spec.setdefault("task", {"use": "digits_logreg"})
    world = spec.setdefault("world", {})
    world["clients"] = min(world.get("clients", 12), 14 if "users" in world else 12)
    pace = spec.setdefault("pace", {})
    pace = pace if isinstance(pace, dict) else spec.setdefault("pace", {"use": pace})
    inner = pace.get("policy", {"use": "readiness"}) if pace.get("use") == "overcommit" else pace
    if isinstance(inner, str):
        inner = {"use": inner}
    if pace.get("use") == "overcommit":
        pace["policy"] = inner
    inner |= {"k": 2, "concurrency": 3, "batch": 1} if inner.get("use") == "buffered" else {"cohort": 3}
    spec["stop"] = {**spec.get("stop", {}), "rounds": 2}
    return spec


def put(spec: dict[str, Any], place: str, value: Any) -> None:
    """Set a dotted place."""
    *path, last = place.split(".")
    for key in path:
        inner = spec.get(key)
        spec[key] = inner if isinstance(inner, dict) else {}
        spec = spec[key]
    spec[last] = value


def leaves(table: dict[str, Any], at: str = "") -> list[str]:
    """All dotted places of a table, tables included."""
    result = []
    for key, value in table.items():
        result.append(f"{at}{key}")
        if isinstance(value, dict):
            result += leaves(value, f"{at}{key}.")
    return result


def settings_of(spec: dict[str, Any]) -> list[tuple[str, Any]]:
    """Every setting that this spec could have, with its type, whether it is written down or not."""
    result: list[tuple[str, Any]] = [("seed", None)]
    for place, kind in PARTS.items():
        table: Any = spec
        for key in place.split("."):
            table = table.get(key, {}) if isinstance(table, dict) else {}
        use = table.get("use") if isinstance(table, dict) else table
        if isinstance(use, str) and use in names(kind):
            result += [(f"{place}.{name}", hint) for name, hint in hints_of(builder(kind, use)).items()]
    for place, schema in (("world", world_settings), ("run", run_settings), ("stop", Stop)):
        result += [(f"{place}.{name}", hint) for name, hint in hints_of(schema).items()]
    # Whoever asks for a cluster at an address waits for it: that is tried once, elsewhere.
    return [(place, hint) for place, hint in result if not place.startswith("run.ray") and place != "run.workers"]


def one_mutation(spec: dict[str, Any], rng: random.Random) -> None:
    """Change one thing of a spec, in place."""
    places = leaves(spec)
    match rng.choice(["near", "near", "wrong", "wrong", "drop", "typo", "new", "use", "use", "bare", "override", "edge", "nest"]):
        case "near":
            place, hint = rng.choice(settings_of(spec))
            put(spec, place, near_limits(rng, hint))
        case "wrong":
            place = rng.choice([*places, *(p for p, _ in settings_of(spec))])
            put(spec, place, wrong_value(rng))
        case "drop":
            _drop(spec, rng.choice(places))
        case "typo":
            place = rng.choice(places)
            put(spec, f"{place[:-1]}{rng.choice('xyz_')}", wrong_value(rng))
        case "new":
            put(spec, f"{rng.choice(places)}.{rng.choice(['new', 'use', 'lr', 'seed', ''])}", wrong_value(rng))
        case "use":
            place, kind = rng.choice(list(PARTS.items()))
            name = rng.choice(LIGHT if kind == "tasks" else names(rng.choice([kind, kind, kind, "tasks"])))
            put(spec, place, {"use": name, **NEEDED.get(name, {})} if rng.random() < 0.7 else name)
        case "bare":
            put(spec, rng.choice(list(PARTS)), rng.choice(["fedavg", "uniform", "readiness", "digits_logreg", "x", ""]))
        case "override":
            named = rng.choice(
                [
                    {"clients": [0, 1]},
                    {"clients": [rng.choice([5, 99, -1, 2**40])]},
                    {"kinds": ["a"]},
                    {"kinds": ["slow"]},
                    {},
                ]
            )
            key = rng.choice(["lr", "epochs", "batch", "use", "momentum", "optimiser", "bound"])
            value = rng.choice([1, 2, 0.01, "adam", "fedavg", wrong_value(rng)])
            algorithm: Any = rng.choice([{key: value}, "fedavg", {"algorithm": {"lr": 0.1}}])
            overrides = spec.get("override") if isinstance(spec.get("override"), list) else []
            spec["override"] = [*overrides, {**named, "algorithm": algorithm}]
        case "edge":
            put(spec, "world.users", rng.choice(["households", "groups", {"use": "groups", "count": 3}]))
            put(spec, "edge", {"use": rng.choice(names("edges"))})
        case "nest":
            spec["pace"] = {
                "use": "overcommit",
                "policy": spec.get("pace", "readiness"),
                "factor": rng.choice([1.0, 1.5, 1e3]),
            }


def _drop(spec: dict[str, Any], place: str) -> None:
    *path, last = place.split(".")
    for key in path:
        spec = spec[key]
    spec.pop(last)


def mutated(rng: random.Random) -> dict[str, Any]:
    """A valid spec with one to three things changed."""
    spec = copy.deepcopy(rng.choice(valid_specs()))
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        one_mutation(spec, rng)
    return spec


def scratched(text: str, rng: random.Random) -> str:
    """A text with a few characters lost, doubled or changed."""
    letters = list(text)
    for _ in range(rng.choice([1, 2, 5])):
        i = rng.randrange(len(letters) or 1)
        letters[i : i + 1] = rng.choice([[], [*letters[i : i + 1]] * 2, [rng.choice("=[]{}\"'#.,-\n\x07é0")]])
    return "".join(letters)
