"""How often the verdict of a comparison errs, and how often it finds what is there: beside the rule that it replaced.

Arms are drawn with common seed effects and residuals of one standard deviation (unless a case says otherwise), and judged by the code
that `fedfleet compare` uses. The rule before (kept here alone): the arm with the best mean against each other by Student's paired t
tests, Holm's correction, on three seeds at least; it did not correct for looking again, and asked for the same winner at a second
moment, which is left out here: that only lowers its power.

    python -m benchmarks.verdict_calibration
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from time import process_time

import numpy as np
from scipy import special

from fedfleet.core.records import Floats
from fedfleet.measure.statistics.blocked_design import best_against_others
from fedfleet.measure.statistics.looks import ERROR, level_of_look

SEEDS, ARMS, LOOKS = (3, 5, 10), (2, 3, 6), (3, 5, 10, 20)
REPEATS = 2000
SEED_SHIFT = 2.0  # standard deviation of what all arms of a seed share

Noise = Callable[[np.random.Generator, int, int], Floats]


def normal(rng: np.random.Generator, arms: int, seeds: int) -> Floats:
    """Residuals of one standard deviation."""
    return rng.normal(size=(arms, seeds))


def heavy_tails(rng: np.random.Generator, arms: int, seeds: int) -> Floats:
    """Student's t with 3 degrees of freedom."""
    return rng.standard_t(3, size=(arms, seeds)) / np.sqrt(3)


def one_wide(rng: np.random.Generator, arms: int, seeds: int) -> Floats:
    """The last arm varies three times as much as the others."""
    return rng.normal(size=(arms, seeds)) * np.where(np.arange(arms) == arms - 1, 3.0, 1.0)[:, None]


def one_wild(rng: np.random.Generator, arms: int, seeds: int) -> Floats:
    """The last arm varies ten times as much as the others."""
    return rng.normal(size=(arms, seeds)) * np.where(np.arange(arms) == arms - 1, 10.0, 1.0)[:, None]


def one_narrow(rng: np.random.Generator, arms: int, seeds: int) -> Floats:
    """The last arm varies a fifth as much as the others, as one does that is near 100 %."""
    return rng.normal(size=(arms, seeds)) * np.where(np.arange(arms) == arms - 1, 0.2, 1.0)[:, None]


def draw(rng: np.random.Generator, noise: Noise, means: Floats, seeds: int) -> Floats:
    """The values of arms (rows) on seeds."""
    return means[:, None] + SEED_SHIFT * rng.normal(size=seeds) + noise(rng, len(means), seeds)


def winner(values: Floats, look: int = 1) -> tuple[int | None, int, float, float]:
    """The arm that is named, if one is; the arm closest to the best, and the interval of best minus closest."""
    arms, seeds = values.shape
    table = {str(i): dict(enumerate(row)) for i, row in enumerate(values.tolist())}
    design = best_against_others(table, {s: {"seeds": s} for s in range(seeds)}, level=level_of_look(look))
    sure = all(one.p is not None and one.p < ERROR for one in design.contrasts)
    near = design.contrasts[0]
    assert near.paired is not None and near.paired.low is not None and near.paired.high is not None and arms > 1
    return int(design.arm) if sure else None, int(near.other), near.paired.low, near.paired.high


def winner_before(values: Floats) -> int | None:
    """The arm that the former rule names at one moment."""
    seeds = values.shape[1]
    best = int(values.mean(axis=1).argmax())
    gaps = values[best] - np.delete(values, best, axis=0)
    t = gaps.mean(axis=1) / (gaps.std(axis=1, ddof=1) / np.sqrt(seeds))
    p = np.sort(2 * special.stdtr(seeds - 1, -np.abs(t)))
    return best if (np.maximum.accumulate(p * np.arange(len(p), 0, -1)) < ERROR).all() else None


def rates(means: Iterable[float], seeds: int, noise: Noise = normal, repeats: int = REPEATS) -> tuple[float, float]:
    """How often this rule and the former one name a winner that is not better than all others (of equal means), or that is (else)."""
    rng, true = np.random.default_rng(1), np.array(list(means))
    right = int(true.argmax()) if (true == true.max()).sum() == 1 else None
    found = np.zeros(2)
    for _ in range(repeats):
        values = draw(rng, noise, true, seeds)
        for i, named in enumerate((winner(values)[0], winner_before(values))):
            found[i] += named is not None and (right is None or named == right)
    new, old = (found / repeats).tolist()
    return new, old


def sequential(arms: int, noise: Noise, repeats: int = REPEATS) -> tuple[float, float]:
    """How often any of several looks names a winner of two equal arms, the others being far behind."""
    rng, found = np.random.default_rng(2), np.zeros(2)
    means = np.array([0.0, 0.0, *([-9.0] * (arms - 2))])
    for _ in range(repeats):
        values = draw(rng, noise, means, LOOKS[-1])
        found[0] += any(winner(values[:, :n], look)[0] is not None for look, n in enumerate(LOOKS, 1))
        found[1] += any(winner_before(values[:, :n]) is not None for n in LOOKS)
    new, old = (found / repeats).tolist()
    return new, old


def coverage(means: Iterable[float], seeds: int, repeats: int = REPEATS) -> float:
    """How often the quoted interval, of the best arm minus the next, holds the true difference of the two."""
    rng, true, held = np.random.default_rng(3), np.array(list(means)), 0
    for _ in range(repeats):
        values = draw(rng, normal, true, seeds)
        _, other, low, high = winner(values)
        held += low <= true[int(values.mean(axis=1).argmax())] - true[other] <= high
    return held / repeats


def main(repeats: int = REPEATS) -> None:
    """Print the tables for benchmarks/RESULTS.md."""
    print(f"False winners, {repeats} studies a cell; now / before, per cent (at most 5)\n")
    print("| truth | arms | 3 seeds | 5 seeds | 10 seeds |\n| --- | --- | --- | --- | --- |")
    for noise, words in (
        (normal, "all equal"),
        (heavy_tails, "heavy tails"),
        (one_wide, "one arm 3 x as wide"),
        (one_wild, "one arm 10 x as wide"),
        (one_narrow, "one arm 1/5 as wide"),
    ):
        for arms in ARMS:
            row(words, arms, [rates([0.0] * arms, n, noise, repeats) for n in SEEDS])
    for arms in ARMS[1:]:
        row("two equal, others 9 sd behind", arms, [rates([0.0, 0.0, *[-9.0] * (arms - 2)], n, normal, repeats) for n in SEEDS])
    print(f"\nFalse winners at any look at {', '.join(map(str, LOOKS))} seeds; now / before\n")
    print("| arms | normal | heavy tails |\n| --- | --- | --- |")
    for arms in ARMS:
        print(f"| {arms} | {' | '.join(both(sequential(arms, noise, repeats)) for noise in (normal, heavy_tails))} |", flush=True)
    print("\nPower: how often the better arm is named; now / before\n")
    print("| ahead of all others by | arms | 3 seeds | 5 seeds | 10 seeds |\n| --- | --- | --- | --- | --- |")
    for gap in (1.0, 2.0, 3.0):
        for arms in ARMS:
            row(f"{gap:.0f} sd", arms, [rates([gap] + [0.0] * (arms - 1), n, normal, repeats) for n in SEEDS])
    print("\nHow often the quoted 95 % interval holds the true difference\n")
    print("| truth | arms | 3 seeds | 5 seeds | 10 seeds |\n| --- | --- | --- | --- | --- |")
    for gap in (0.0, 2.0):
        for arms in ARMS:
            cells = [f"{100 * coverage([gap] + [0.0] * (arms - 1), n, repeats):.1f}" for n in SEEDS]
            print(f"| best ahead by {gap:.0f} sd | {arms} | {' | '.join(cells)} |", flush=True)
    print(f"\n{process_time():.0f} s of CPU")


def both(pair: tuple[float, float]) -> str:
    """Two rates in per cent."""
    return f"{100 * pair[0]:.1f} / {100 * pair[1]:.1f}"


def row(words: str, arms: int, pairs: list[tuple[float, float]]) -> None:
    """Print a row of a table."""
    print(f"| {words} | {arms} | {' | '.join(map(both, pairs))} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS)
