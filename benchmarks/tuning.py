"""What a search brings on digits, and what stopping early saves: `python -m benchmarks.tuning [--trials 20] [--rounds 60]`.

One search for each pruner on the same space, from the same seed; then the best values against the spec as it stands on seeds that no
search has seen. The learning rate alone is searched, as whoever begins would do it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from fedfleet.app.runs import perform
from fedfleet.app.studies.tune.search import tune
from fedfleet.app.studies.tune.search_file import search_of
from fedfleet.measure.statistics.paired_tests import paired_test

FRESH = (101, 102, 103, 104, 105)


def table(rounds: int, trials: int, pruner: str, seed: int) -> dict[str, Any]:
    """Unlike data on fifty clients, of whom ten take part in a round."""
    return {
        "seed": seed,
        "task": {"use": "digits_mlp"},
        "world": {"clients": 50, "data": {"use": "dirichlet", "alpha": 0.3}},
        "pace": {"use": "readiness", "cohort": 10},
        "stop": {"rounds": rounds},
        "run": {"execute": "stacked"},
        "tune": {
            "trials": trials,
            "pruner": pruner,
            "space": {"algorithm.lr": {"low": 0.001, "high": 2.0, "log": True}},
        },
    }


def searched(pruner: str, rounds: int, trials: int, seed: int, folder: Path) -> dict[str, Any]:
    """The answer of one search, and how its best does on other seeds."""
    search = search_of(table(rounds, trials, pruner, seed), "digits_mlp")
    found = tune(search, folder / pruner).answer()
    fresh = [
        [perform(search.spec(values, seed), folder / f"{pruner}-{name}-{seed}").metrics["accuracy"] for seed in FRESH]
        for name, values in (("best", found["best"]), ("default", {}))
    ]
    apart = paired_test(*fresh)
    return {**found, "fresh_gain": apart.difference, "fresh_low": apart.low, "fresh_high": apart.high}


def main() -> None:
    """Print a row for each pruner."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--trials", type=int, default=20)
    asked.add_argument("--rounds", type=int, default=60)
    asked.add_argument("--seed", type=int, default=3)
    asked.add_argument("--pruners", nargs="*", default=["none", "median", "halving"])
    asked.add_argument("--json", action="store_true")
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = {name: searched(name, given.rounds, given.trials, given.seed, Path(folder)) for name in given.pruners}
    if given.json:
        print(json.dumps(rows))
        return
    print(f"{given.trials} trials of {given.rounds} rounds on digits_mlp, over the learning rate, seed {given.seed}")
    for name, row in rows.items():
        print(
            f"{name:<8} default {100 * row['default_value']:.1f} %, best {100 * row['value']:.1f} % (lr {row['best']['algorithm.lr']:.3g}); "
            f"on new seeds {100 * row['fresh_gain']:+.1f} points ({100 * row['fresh_low']:.1f} to {100 * row['fresh_high']:.1f}); "
            f"{row['pruned']} stopped early, {row['rounds']:,} rounds, {100 * row['rounds_saved']:.0f} % saved"
        )


if __name__ == "__main__":
    main()
