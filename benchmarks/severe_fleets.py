"""Twenty severe fleets under five pacings, every key that a newcomer would not set at its default: what became of each run.

A fleet is drawn at random: unlike devices (dpgmm, spread), little reachability (dpcsm, daily), a model of up to 350 MB (a ViT),
unlike data (alpha 0.1). A run may fail, but never silently: where it made no model, or one at chance, it must say what to do.

    python -m benchmarks.severe_fleets [--fleets 20] [--json]
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import fedfleet
from fedfleet.app.assemble import assemble, feasibility_warnings
from fedfleet.app.spec import resolve
from fedfleet.app.terminal.text import span

PACINGS = ("readiness", "deadline", "timeout", "buffered", "semi_async")
VIT_BYTES = 3.5e8
# Every cure names a key that can be changed.
_CURES = ("pace.", "world.", "algorithm.", "stop.")


@dataclass(frozen=True, slots=True)
class Walk:
    """What became of one run, and what it said."""

    fleet: int
    pacing: str
    world: str
    commits: int
    rounds: int
    virtual_seconds: float
    accuracy: float | None
    chance: float | None
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def outcome(self) -> str:
        """One word for it."""
        if not self.commits:
            return "no model"
        if self.accuracy is not None and self.chance is not None and self.accuracy <= self.chance + 0.02:
            return "at chance"
        return "half failed" if self.commits * 2 < self.rounds else "model"

    @property
    def says_what_to_do(self) -> bool:
        """Does it name a key to change, where it did not go well?"""
        return self.outcome == "model" or any(cure in warning for warning in self.after for cure in _CURES)


def severe_world(seed: int) -> dict[str, Any]:
    """A severe fleet, by its number."""
    rng = np.random.default_rng(seed)
    devices = [
        {"use": "dpgmm", "sigma": float(rng.uniform(0.8, 1.6)), "mean_mbps": float(rng.uniform(20, 60))},
        {"use": "spread", "link": float(rng.uniform(0.8, 1.8)), "compute": float(rng.uniform(0.3, 1.0))},
    ][int(rng.integers(2))]
    states = [
        {"use": "dpcsm", "alpha": float(rng.choice([4.0, 30.0, 100.0])), "start_rank": int(rng.integers(60, 180))},
        {"use": "daily", "ready": float(rng.uniform(0.03, 0.2)), "sessions": int(rng.integers(2, 24))},
    ][int(rng.integers(2))]
    size = float(np.round(10 ** rng.uniform(6.5, np.log10(VIT_BYTES)), -5))
    return {
        "clients": int(rng.integers(30, 80)), "model_bytes": size, "devices": devices, "states": states,
        "data": {"use": "dirichlet", "alpha": 0.1},
    }  # fmt: skip


def walk(fleet: int, pacing: str) -> Walk:
    """Run one of them, small: 30 rounds on digits."""
    world = severe_world(fleet)
    spec = {"seed": fleet, "task": "digits_mlp", "world": world, "pace": pacing, "algorithm": {"lr": 0.1}, "stop": {"rounds": 30}}
    before = feasibility_warnings(assemble(resolve(spec)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metrics = fedfleet.run(spec).metrics
    text = f"{world['devices']['use']}, {world['states']['use']}, {world['clients']} clients, {world['model_bytes'] / 1e6:.0f} MB"
    return Walk(
        fleet, pacing, text, metrics["commits"], metrics["rounds"], metrics["virtual_seconds"], metrics["accuracy"],
        metrics["chance"], tuple(before), tuple(metrics["warnings"]),
    )  # fmt: skip


def walks(fleets: int) -> Iterator[Walk]:
    """All of them."""
    for fleet in range(fleets):
        for pacing in PACINGS:
            yield walk(fleet, pacing)


def table(results: list[Walk]) -> str:
    """The results as a table of fleets by pacings."""
    rows = ["| fleet | " + " | ".join(PACINGS) + " |", "| --- |" + " --- |" * len(PACINGS)]
    for fleet in dict.fromkeys(one.fleet for one in results):
        of_fleet = [one for one in results if one.fleet == fleet]
        rows.append(f"| {of_fleet[0].world} | " + " | ".join(map(_cell, of_fleet)) + " |")
    return "\n".join(rows)


def _cell(one: Walk) -> str:
    accuracy = "" if one.accuracy is None or not one.commits else f", {100 * one.accuracy:.0f} %"
    silent = "" if one.says_what_to_do else " SILENT"
    return f"{one.outcome}: {one.commits} of {one.rounds} in {span(one.virtual_seconds)}{accuracy}{silent}"


def main() -> None:
    """Run them and print the table, and each message once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--fleets", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    results = list(walks(asked.fleets))
    if asked.json:
        print(json.dumps([{**asdict(one), "outcome": one.outcome} for one in results]))
        return
    print(table(results))
    for one in results:
        if one.outcome != "model":
            print(f"\n{one.world}, {one.pacing}: {one.outcome}")
            print("\n".join([*(f"  before: {text}" for text in one.before), *(f"  after: {text}" for text in one.after)]))


if __name__ == "__main__":
    main()
