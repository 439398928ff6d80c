"""Does it pay to let one user's devices exchange samples? ShuffleFL against FedAvg, in virtual time, as rounds x round time.

    python -m studies.user_layer --data fashion --devices 2-5 --out runs/user_layer      (Fashion-MNIST: see $FEDFLEET_DATA)
    python -m studies.user_layer --report runs/user_layer

The setting is the paper's where it says it: Adam 1e-3, five local epochs of batches of 32, Dirichlet(0.5) inside a user, a fifth of
the users each round, computing that differs 13-fold and links that differ 200-fold at most and change from trip to trip. There is
no pause between rounds, everything that a person holds is trained on, and a device holds 115 samples on average. Everything is
charged: planning (our solver's formula), exchange of samples, all transfers of the model. FedAvg asks as many devices as the
others' users have. Each fleet draw is seen by all arms, with the same data and the same first model.

What is fixed before anything runs: the arms, five fleets, the rounds, and the targets: shares of FedAvg's own plateau on the same
fleet, which is the mean of the last tenth of its evaluations. A target is reached at the first evaluation whose running median of
five is there. A speed-up is FedAvg's time over the arm's, by fleet; it is the product of the rounds' ratio and of the seconds
that a round took until then. Intervals are bootstrapped over fleets.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

TARGETS = (0.8, 0.9, 0.95, 0.98, 1.0)
FLEETS, A_FIFTH, A_DEVICE, EPOCHS, BATCH = 5, 0.2, 115, 5, 32
ARMS: dict[str, dict[str, Any] | None] = {
    "fedavg": None,
    "no exchange": {"use": "shufflefl", "solver": "none"},
    "proportional": {"use": "shufflefl", "solver": "proportional"},
    "shufflefl": {"use": "shufflefl"},
}
PEERS: dict[str, dict[str, Any]] = {
    "hierfl": {
        "use": "hierfl",
        "kappa1": 9,
        "kappa2": 2,
    },  # about as many local steps a round as the others' epochs come to
    "fedgs": {
        "use": "fedgs",
        "random": 1,
        "batch": BATCH,
        "per_sync": 4,
        "syncs": 6,
    },  # ten groups, all of which take part
}
LADDER: dict[str, dict[str, Any]] = {
    "II: max SL, max DI": {"use": "shufflefl", "time_balance": False, "adaptive": False},
    "III: with deviation": {"use": "shufflefl", "adaptive": False},
    "IV without time balance": {"use": "shufflefl", "time_balance": False},
    "IV, Eq. 8 as printed": {"use": "shufflefl", "printed_eq8": True},
    "IV, exact plans": {"use": "shufflefl", "solver": "exact"},
    "IV, the paper's gateways": {"use": "shufflefl", "gateway": "mixed"},
}
ALL: dict[str, dict[str, Any] | None] = {**ARMS, **PEERS, **LADDER}
SETS: dict[str, Sequence[str]] = {
    "main": tuple(ARMS), "short": ("fedavg", "proportional"), "peers": tuple(PEERS), "ladder": tuple(LADDER),
}  # fmt: skip
# By name: task, how samples are dealt to users, how many users there are, rounds.
DATA: dict[str, tuple[dict[str, Any], dict[str, Any], int | None, int]] = {
    "fashion": ({"use": "fashion_mlp"}, {"use": "dirichlet", "alpha": 1.0}, None, 300),
    "wisdm": ({"use": "wisdm_cnn"}, {"use": "by_owner"}, 51, 200),
    "digits": (
        {"use": "digits_mlp"},
        {"use": "dirichlet", "alpha": 1.0},
        12,
        100,
    ),  # embedded: a quick look, few samples
}
SPREAD = {
    "use": "mobile",
    "devices": {
        "use": "spread", "mbps": 20.0, "seconds_per_sample": 0.04, "link": 1.33, "compute": 0.64, "most_link": 200.0, "most_compute": 13.0,
    },
}  # fmt: skip
NO_PAUSE = 0.001  # seconds: a policy must let some time pass


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: its data, how many devices a user has, its arm and its fleet; how many rounds, and on what it trains."""

    data: str
    devices: str
    arm: str
    fleet: int
    rounds: int
    device: str
    a_device: int = A_DEVICE  # samples on a device, on average

    @property
    def name(self) -> str:
        """The name of its folder."""
        arm = "".join(c if c.isalnum() else "_" for c in self.arm)
        few = "" if self.a_device == A_DEVICE else f"-{self.a_device}"
        return f"{self.data}-{self.devices}{few}-{arm}-{self.fleet}"


@dataclass(frozen=True, slots=True)
class Curve:
    """Accuracy by evaluation: after which round, at which virtual second."""

    rounds: list[int]
    seconds: list[float]
    accuracy: list[float]


def spec_of(cell: Cell) -> dict[str, Any]:
    """The spec of one run; a flat one asks devices, the others users."""
    task, dealt, users, _ = DATA[cell.data]
    low, _, high = cell.devices.partition("-")
    between = [int(low), int(high or low)]
    a_user = sum(between) / 2
    users = users or (50 if a_user < 5 else 30)
    clients, cohort = round(users * a_user), max(2, round(A_FIFTH * users))
    edge, flat, grouped = ALL[cell.arm], ALL[cell.arm] is None, cell.arm == "fedgs"
    owners = {"use": "groups", "count": 10, "mu": 0.5} if grouped else {"use": "households", "devices": between, "mu": 0.5}
    world: dict[str, Any] = {
        "clients": clients, "devices": SPREAD, "data": dealt, "users": owners,
        "split": [1, 0, 0], "min_samples": 3,
    }  # fmt: skip
    if cell.data == "fashion":
        task = {**task, "samples": round(clients * cell.a_device / 0.8)}  # a fifth is held out
    table = {
        "seed": 100 + cell.fleet,
        "task": task,
        "world": world,
        "algorithm": {"use": "fedavg", "optimiser": "adam", "lr": 0.001, "epochs": EPOCHS, "batch": BATCH},
        "pace": {
            "use": "readiness",
            "cohort": round(a_user * cohort) if flat else 10 if grouped else cohort,
            "t_break": NO_PAUSE,
        },
        "stop": {"rounds": cell.rounds},
        "run": {"execute": "stacked", "threads": 1, "device": cell.device, "checkpoint_every": 100},
    }
    return table | ({"edge": edge} if edge else {})


def curve_of(cell: Cell, out: Path) -> Curve:
    """Train, or take what is there."""
    from fedfleet.app.runs import perform
    from fedfleet.app.spec import resolve
    from fedfleet.core.events import Evaluated, ModelCommitted

    kept = out / f"{cell.name}.json"
    if kept.is_file():
        return Curve(**json.loads(kept.read_text())["curve"])
    start = time.perf_counter()
    done = perform(resolve(spec_of(cell), cell.name), out / "runs" / cell.name, resume=(out / "runs" / cell.name).is_dir())
    made = {e.version: e.round + 1 for e in done.events if isinstance(e, ModelCommitted)}
    seen = [e for e in done.events if isinstance(e, Evaluated) and e.total]
    curve = Curve([made.get(e.version, 0) for e in seen], [e.time for e in seen], [e.correct / e.total for e in seen])
    took = time.perf_counter() - start
    kept.write_text(
        json.dumps({"cell": asdict(cell), "curve": asdict(curve), "wall_seconds": took, "digest": done.metrics["digest"]})
    )
    return curve


def smooth(values: Sequence[float]) -> list[float]:
    """The running median of the last five evaluations: nothing that comes later is known.

    >>> smooth([1.0, 9.0, 2.0, 3.0])
    [1.0, 5.0, 2.0, 2.5]
    """
    return [statistics.median(values[max(0, i - 4) : i + 1]) for i in range(len(values))]


def plateau(curve: Curve) -> float:
    """Where a curve ends: the mean of the last tenth of its evaluations."""
    return statistics.fmean(curve.accuracy[-max(1, len(curve.accuracy) // 10) :])


def reached(curve: Curve, target: float) -> tuple[int, float] | None:
    """After which round, and when, the target was first reached; None: never."""
    found = next((i for i, a in enumerate(smooth(curve.accuracy)) if a >= target), None)
    return None if found is None else (max(curve.rounds[found], 1), curve.seconds[found])


@dataclass(frozen=True, slots=True)
class Factor:
    """FedAvg over the arm on one fleet: the whole, and its two factors; None: one of them never got there."""

    whole: float
    rounds: float
    round_seconds: float


def factor(first: Curve, other: Curve, target: float) -> Factor | None:
    """How much faster the other gets there."""
    a, b = reached(first, target), reached(other, target)
    if a is None or b is None:
        return None
    whole, rounds = a[1] / b[1], a[0] / b[0]
    return Factor(whole, rounds, whole / rounds)


def median_interval(values: Sequence[float], draws: int = 4000) -> tuple[float, float, float]:
    """The median with its 95 % bootstrap interval over fleets."""
    rng = np.random.default_rng(0)
    drawn = np.median(rng.choice(np.array(values), (draws, len(values))), axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(np.median(values)), float(low), float(high)


def report(folder: Path) -> str:
    """The tables of all runs in a folder, as Markdown."""
    curves: dict[tuple[str, str], dict[tuple[str, int], Curve]] = {}
    for kept in sorted(folder.glob("*.json")):
        found = json.loads(kept.read_text())
        cell = found["cell"]
        curves.setdefault((cell["data"], cell["devices"]), {})[cell["arm"], cell["fleet"]] = Curve(**found["curve"])
    lines: list[str] = []
    for (data, devices), got in sorted(curves.items()):
        lines += [f"## {data}, {devices} devices a user, {len({f for _, f in got})} fleets", ""]
        lines += [*_levels(got), "", *_by_target(got), ""]
    return "\n".join(lines)


def _fleets(got: dict[tuple[str, int], Curve], arm: str) -> list[int]:
    return sorted(f for a, f in got if a == arm and ("fedavg", f) in got)


def _levels(got: dict[tuple[str, int], Curve]) -> list[str]:
    rows = ["| arm | accuracy at its end, % | seconds a round |", "| --- | --- | --- |"]
    for arm in ALL:
        mine = [got[arm, f] for f in _fleets(got, arm)]
        if mine:
            ends = [100 * plateau(c) for c in mine]
            pace = [c.seconds[-1] / max(c.rounds[-1], 1) for c in mine]
            rows.append(f"| {arm} | {statistics.fmean(ends):.1f} ({min(ends):.1f} to {max(ends):.1f}) | {statistics.fmean(pace):.0f} ({min(pace):.0f} to {max(pace):.0f}) |")  # fmt: skip
    return rows


def _by_target(got: dict[tuple[str, int], Curve]) -> list[str]:
    """Speed-up over FedAvg by target: the median over fleets with its interval, and the two factors' medians."""
    rows = [
        "| arm | target, of FedAvg's plateau | speed-up | = rounds | x round time | not reached |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for arm in [a for a in ALL if a != "fedavg"]:
        for share in TARGETS:
            fleets = _fleets(got, arm)
            found = [factor(got["fedavg", f], got[arm, f], share * plateau(got["fedavg", f])) for f in fleets]
            there = [f for f in found if f is not None]
            if not there:
                continue
            said = [median_interval([getattr(f, key) for f in there]) for key in ("whole", "rounds", "round_seconds")]
            cells = " | ".join(f"{m:.2f} ({a:.2f} to {b:.2f})" for m, a, b in said)
            rows.append(f"| {arm} | {100 * share:.0f} % | {cells} | {len(found) - len(there)} of {len(found)} |")
    return rows


def main() -> None:
    """Train what is asked for, in parallel, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=tuple(DATA), default="fashion")
    parser.add_argument("--devices", default="2-5", help="how many devices a user has: 2-5, or 7")
    parser.add_argument("--arms", choices=tuple(SETS), default="main", help="ladder: the paper's objectives")
    parser.add_argument("--a-device", type=int, default=A_DEVICE, metavar="N", help="samples on a device, on average")
    parser.add_argument("--fleets", type=int, default=FLEETS)
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/user_layer"))
    parser.add_argument("--report", type=Path, default=None, help="only print the tables of this folder")
    asked = parser.parse_args()
    if asked.report is None:
        asked.out.mkdir(parents=True, exist_ok=True)
        rounds = asked.rounds or DATA[asked.data][3]
        arms = SETS[asked.arms]
        cells = [
            Cell(asked.data, asked.devices, arm, f, rounds, asked.device, asked.a_device)
            for f in range(asked.fleets)
            for arm in arms
        ]
        with ProcessPoolExecutor(asked.workers, mp_context=get_context("spawn")) as pool:
            for cell, future in [(cell, pool.submit(curve_of, cell, asked.out)) for cell in cells]:
                curve = future.result()
                print(f"{cell.name}: {100 * plateau(curve):.1f} % at the end", file=sys.stderr, flush=True)
    print(report(asked.report or asked.out))


if __name__ == "__main__":
    main()
