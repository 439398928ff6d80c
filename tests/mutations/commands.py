"""Command lines: every verb with its own options, valid and wrong, on valid and spoilt files."""

import copy
import json
import random
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from fedfleet.app.cli.commands import group_command
from fedfleet.app.cli.main import FEDFLEET
from fedfleet.core.registry import KINDS
from fedfleet.world.bases import load_devices, load_states
from fedfleet.world.bases.canonical_files import write_devices, write_states
from tests.app.specs import TINY, fleet
from tests.mutations.specs import leaves, mutated, put, scratched
from tests.mutations.values import EVERYTHING, FLOATS, INTS, TEXTS, word_of, wrong_value

EXCHANGE = {
    "counts": [[4, 0, 1], [0, 4, 2], [1, 1, 9]], "seconds_per_sample": [0.1, 0.2, 0.05], "up_bps": [1e6, 2e6, 1e5],
    "down_bps": [1e6, 1e6, 3e6], "bits_per_sample": 8e3, "epochs": 5, "alpha": "auto",
}  # fmt: skip
# What keeps each verb short, and the words that it cannot do without.
QUICK = {
    "measure": {
        "--rounds": "20", "--trips": "50", "--clients-k": "3", "--seeds": "2", "--devices": "devices.json",
        "--states": "states.json",
    },
    "sample devices": {"--clients": "9", "--out": "out.json"},
    "sample states": {"--clients": "9", "--rounds": "50", "--clients-k": "3", "--base": "states.json"},
    "shuffle": {"--limit": "2"},
    "profile": {"--iterations": "2", "--batch": "2", "--task": "digits_logreg"},
    "bench train": {"--cohort": "3", "--steps": "2", "--batch": "2", "--task": "digits_logreg"},
    "run": {"--out": "out"}, "serve": {"--address": "127.0.0.1:0"}, "device": {"--client": "0", "--server": "127.0.0.1:1"},
    "demo": {"--out": "spec.toml"}, "report": {}, "replay": {}, "verify": {}, "list": {}, "version": {}, "data": {},
}  # fmt: skip
ARGUMENTS = {
    "shuffle": ["exchange.json"],
    "run": ["spec.toml"],
    "serve": ["spec.toml"],
    "report": ["run"],
    "replay": ["run"],
    "verify": ["run"],
    "list": ["tasks"],
}
WAITS = ("serve", "device", "demo")  # for others, or for long: interrupted, they must answer


@dataclass(frozen=True)
class Case:
    """One command line, and the folder in which it is called."""

    words: list[str]
    number: int


@cache
def options() -> dict[str, dict[str, str]]:
    """The options of every verb with the names of their types, as the command line itself declares them."""
    result: dict[str, dict[str, str]] = {}

    def look(name: str, command: Any) -> None:
        inner = (
            {verb: command.get_command(None, verb) for verb in command.list_commands(None)}
            if hasattr(command, "list_commands")
            else {}
        )
        for verb, one in inner.items():
            look(f"{name} {verb}".strip(), one)
        if not inner:
            declared = [p for p in command.params if p.opts[0].startswith("-")]
            result[name] = {max(p.opts, key=len): "flag" if p.is_flag else _kind(p) for p in declared}

    look("", group_command("fedfleet", FEDFLEET))
    return result


def _kind(option: Any) -> str:
    """integer, float, path or text; versions of Typer differ in where they say it."""
    said = option.type.name if hasattr(option, "type") else str(option.type_descriptor.annotation)
    return next((kind for kind, word in (("integer", "int"), ("float", "float"), ("path", "ath")) if word in said), "text")


def furnished(folder: Path, rng: random.Random, finished: Path) -> None:
    """Put valid files into a folder, and perhaps spoil one of them."""
    folder.mkdir(parents=True)
    (folder / "spec.toml").write_text(TINY.replace("rounds = 6", "rounds = 2"))
    fleet(folder, 14)
    (folder / "exchange.json").write_text(json.dumps(EXCHANGE))
    shutil.copytree(finished, folder / "run")
    write_devices(str(folder / "devices.npz"), load_devices(str(folder / "devices.json")))
    write_states(str(folder / "states.npz"), load_states(str(folder / "states.json")))
    if rng.random() < 0.5:
        _spoil(folder, rng)


def _spoil(folder: Path, rng: random.Random) -> None:
    name = rng.choice(
        [
            "devices.json",
            "states.json",
            "exchange.json",
            "devices.npz",
            "states.npz",
            "run/metrics.json",
            "run/spec.toml",
        ]
    )
    path = folder / name
    if rng.random() < 0.15:
        path.write_bytes(
            rng.choice([b"", b"{}", b"[]", b"\xff\x00", b"null", b"[" * 100_000, path.read_bytes()[: rng.randrange(200)]])
        )
    elif name.endswith(".npz"):
        with np.load(path) as file:
            arrays = dict(file)
        key = rng.choice(list(arrays))
        arrays[key] = _spoilt_array(arrays[key], rng)
        np.savez(path, **arrays)
    elif name.endswith(".toml") or rng.random() < 0.3:
        path.write_text(scratched(path.read_text(), rng))
    else:
        content = json.loads(path.read_text())
        _spoil_json(content, rng)
        path.write_text(json.dumps(content, default=str))


def _spoilt_array(array: Any, rng: random.Random) -> Any:
    values = [np.nan, np.inf, -1.0, 0.0, 1e308, 1e15, 5e-324]
    match rng.choice(["value", "shape", "cut", "type", "drop"]):
        case "value" if array.dtype.kind in "fi" and array.size:
            spoilt = array.astype(np.float64 if array.dtype.kind == "f" else array.dtype).copy()
            spoilt.flat[rng.randrange(array.size)] = rng.choice(values if array.dtype.kind == "f" else [-1, 2**62])
            return spoilt
        case "shape":
            return array.reshape(-1, 1) if array.ndim < 2 else array.ravel()
        case "cut":
            return array[:-1] if array.ndim else array
        case "type":
            return np.array(["x"] * max(array.size, 1)).reshape(array.shape if array.size else (1,))
        case _:
            return np.zeros(0)


def _spoil_json(content: Any, rng: random.Random) -> None:
    """Change something in a JSON value, in place."""
    while isinstance(content, dict | list) and content:
        key = rng.choice(list(content) if isinstance(content, dict) else range(len(content)))
        if not isinstance(content[key], dict | list) or not content[key] or rng.random() < 0.25:
            content[key] = rng.choice([wrong_value(rng), 10**9, 1e300, None])
            if isinstance(content, dict) and rng.random() < 0.2:
                content["unknown"] = 1
            return
        content = content[key]


def value_for(kind: str, rng: random.Random) -> str:
    """A word for an option of this type, more often of the right type than not."""
    pools: dict[str, list[Any]] = {
        "integer": [*INTS, 1, 2, 3, 5], "float": [*FLOATS, 1.0, 20.0],
        "path": [*TEXTS, "out.json", "none/out.json", "spec.toml", ".", "out.npz", "run"],
        "text": [
            *TEXTS, "devices.json", "states.json", "devices.npz", "states.npz", "builtin", "fsreal", "flash:none",
            "flhetbench:x#y", "paper", "released", "uniform", "dpgmm", "pool72", "dpcsm", "deadline", "DevMC-R",
            "StatMC-T,InterMC-T", "cuda", "merged",
        ],
    }  # fmt: skip
    return word_of(rng.choice(pools.get(kind, EVERYTHING) if rng.random() < 0.85 else EVERYTHING))


def spec_case(number: int, folder: Path, rng: random.Random) -> Case:
    """A mutated spec, checked or run; sometimes the mutation comes as words of the command line."""
    spec = mutated(rng)
    text = tomli_w.dumps(spec)
    if rng.random() < 0.06:
        text = scratched(text, rng)
    (folder / "mutated.toml").write_text(text)
    words = ["run", "mutated.toml", *(["--check"] if rng.random() < 0.4 else ["--out", "out"])]
    if rng.random() < 0.3:
        place = rng.choice(leaves(spec))
        words.insert(2, f"{place}={word_of(wrong_value(rng))}")
    return Case([*words, *(["--json"] if rng.random() < 0.4 else [])], number)


def verb_case(number: int, folder: Path, rng: random.Random) -> Case:
    """A verb with options, right and wrong."""
    verb = rng.choice(
        [v for v in QUICK if v not in WAITS or rng.random() < 0.25]
        + ["measure", "sample devices", "sample states", "shuffle", "run"]
    )
    declared = options()[verb]
    given = copy.copy(QUICK[verb])
    for option in rng.sample(sorted(declared), k=min(len(declared), rng.choice([0, 1, 1, 2]))):
        if option not in ("--help", "--json", "--ray-address") and declared[option] != "flag":
            given[option] = value_for(declared[option], rng)
    words = verb.split() + list(ARGUMENTS.get(verb, []))
    if verb == "list" and rng.random() < 0.7:
        words = ["list", *rng.choice([[], [rng.choice(KINDS)], [word_of(wrong_value(rng))]])]
    if verb == "data" and rng.random() < 0.7:
        words.append(rng.choice(["nothing", "", "x" * 300]))  # never a real name: that would go and fetch it
    if verb == "run" and rng.random() < 0.3:
        words = ["run", "run/spec.toml", "--resume"] if rng.random() < 0.6 else ["run", "spec.toml", "--resume"]
        given = {"--out": rng.choice(["run", "typo", "spec.toml", "."])}
    if rng.random() < 0.08:
        words.append(rng.choice(["--unknown", "-x", "extra", "k=v", "=", "--"]))
    if rng.random() < 0.05 and words[1:]:
        words[1] = rng.choice(["none.json", ".", "", "\u202e", "spec.toml"])
    flags = [o for o, kind in declared.items() if kind == "flag" and o not in ("--help",) and rng.random() < 0.3]
    return Case([*words, *(w for pair in given.items() for w in pair), *flags], number)


def make_case(seed: int, number: int, root: Path, finished: Path) -> tuple[Case, Path]:
    """The case of this number, and its folder with everything in it."""
    rng = random.Random(f"{seed}/{number}")
    folder = root / str(number)
    furnished(folder, rng, finished)
    make = spec_case if rng.random() < 0.6 else verb_case
    return make(number, folder, rng), folder


__all__ = ["Case", "make_case", "options", "put"]
