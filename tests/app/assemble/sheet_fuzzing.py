"""Sheets that no honest server sends, in a process with little memory: `python -m tests.app.assemble.sheet_fuzzing SEED COUNT`.

A device that reads one gives a kit, or `Refused`, or `BadInput`: soon, and with little memory. Values are changed inside a sound
sheet, so that they reach the builders; that the bytes are JSON at all is the lesser part.
"""

from __future__ import annotations

import copy
import json
import resource
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.client_config import client_config_for
from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.app.spec import resolve
from tests.network.fuzzing import Target, tried
from tests.network.mutating import mutated

ROOM = 512 << 20  # bytes of address space beyond what the process has
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, -(10**30), 0.0, -0.5, 1e-320, 1e308, float("nan"),
    float("inf"), "", "w", "own", "fedavg", "digits_cnn", "digits_mlp", "nobody", "\x00", "../../x", "os:system", "\ud800",
    "9" * 5000, "x" * 3000, [], {}, [[]], [0], [-1], [2**70], ["a"], [None], {"use": "own"}, {"use": "fedavg"}, {"use": 3},
    {"": ""}, [0] * 3000,
)  # fmt: skip


def _sheets() -> list[bytes]:
    spec = {
        "task": {"use": "digits_logreg"},
        "world": {"clients": 6},
        "pace": {"use": "readiness", "cohort": 2},
        "stop": {"rounds": 2},
    }
    algorithms = (
        {"use": "fedavg"},
        {"use": "fedprox", "mu": 0.1, "up": ["topk", "int8", "gzip"], "feedback": True},
        {"use": "scaffold"},
    )
    return [client_config_for(assemble(resolve({**spec, "algorithm": algorithm})), 3) for algorithm in algorithms]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where a value can be changed; of long lists only the ends."""
    if isinstance(value, dict):
        return [path, *(p for k, v in value.items() for p in _places(v, (*path, k)))]
    if isinstance(value, list):
        ends = {0, len(value) - 1} if value else set[int]()
        return [path, *(p for i in sorted(ends) for p in _places(value[i], (*path, i)))]
    return [path]


def malformed(rng: Random, sheet: bytes) -> bytes:
    """A sheet with a few odd values, keys that are gone or new; or with odd bytes."""
    if rng.random() < 0.15:
        return mutated(rng, sheet, [sheet])
    table = copy.deepcopy(json.loads(sheet))
    for _ in range(rng.choice((1, 1, 2, 4))):
        path = rng.choice(_places(table)[1:])
        inside = table
        for step in path[:-1]:
            inside = inside[step]
        match rng.randrange(6):
            case 0 if isinstance(inside, dict):
                del inside[path[-1]]
            case 1 if isinstance(inside, dict):
                inside[rng.choice(("use", "labels", "backbone", "width", "epochs", "extra", "steps", "up"))] = rng.choice(ODD)
            case _:
                inside[path[-1]] = copy.deepcopy(rng.choice(ODD))
    return json.dumps(table).encode()


def main(seed: int, count: int) -> None:
    """Read so many malformed sheets and say what came of them."""
    sheets = _sheets()
    target = Target("sheet", sheets, build_client_runtime)
    for i in range(60):
        tried(target, malformed(Random(-1 - i), sheets[i % len(sheets)]))
    for sheet in sheets:
        assert tried(target, sheet) == "taken"
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    outcomes, broken, slowest = {"taken": 0, "refused": 0, "broken": 0}, list[list[str]](), (0.0, "")
    for i in range(count):
        rng = Random(seed << 32 | i)
        data, began = malformed(rng, rng.choice(sheets)), time.process_time()
        outcome = tried(target, data)
        slowest = max(slowest, (time.process_time() - began, f"sheet {i}"))
        outcomes[outcome if outcome in outcomes else "broken"] += 1
        if outcome not in outcomes and len(broken) < 20:
            broken.append([outcome, f"sheet {i}"])
    said = {
        "messages": count, "seconds": round(time.perf_counter() - start, 1), "outcomes": outcomes, "broken": broken,
        "slowest": slowest, "grown_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before,
    }  # fmt: skip
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
