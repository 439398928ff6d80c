"""Predict before you train: does it hold on fleets that nobody looked at before?

    python -m studies.predict --split development --workers 2      (fleets 0, 1, ..: on these the method was made)
    python -m studies.predict --split test --workers 16            (fleets 1000, 1001, ..: on these it is judged)

Every fleet has devices, states, a deadline, data and a first model of its own; each is predicted (with other draws than the run's own)
and then trained. What is known of a fleet is kept in OUT/fleets, so that a second call goes on where the first ended; the table
is OUT/predict-SPLIT.md, all figures are OUT/predict-SPLIT.json. `--band FILE` writes the error band of `fedfleet predict` from these
fleets. WISDM is read from $FEDFLEET_DATA. How a prediction is made and what came out: docs/explanation/prediction.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core for each worker

CLIENTS, COHORT, VIT = 100, 20, 343_200_776
FEWEST = (
    5  # fleets for which fewer commits are foreseen are drawn again: of those everybody knows that nothing is learnt
)
TRIES = 40
DATA: dict[str, dict[str, Any]] = {
    "iid": {"use": "iid"},
    "dirichlet .5": {"use": "dirichlet", "alpha": 0.5},
    "dirichlet .1": {"use": "dirichlet", "alpha": 0.1},
}
FIRST = {"development": 0, "test": 1000}
TAIL = (
    3.0  # percent beyond each end of the band, which shall hold nine of ten: few fleets show too little of their tails
)
MARKS = (0.25, 0.5, 0.75, 1.0)  # of a run's commits: where the band is looked at
PLACES = (0.0, 0.5, 0.75, 0.88, 0.96, 1.0)  # borders of progress, from the untrained to the ideal model


RECORD = Path(__file__).with_suffix(".json")
INTRODUCTION = """# Predicted, then trained

What `fedfleet predict` foretells of fleets, and what training on them then gave: `python -m studies.predict --split SPLIT --publish` repeats it.
100 clients, cohorts of 20, FedAvg under a deadline, as many bytes as ViT-B/16; every fleet has devices, states, deadline, data and first
model of its own. r is Pearson's over fleets, between what is foretold and the accuracy of the last model, with a 95 % bootstrap interval;
it is foretold with other draws of who is chosen than the run's own; *own choices*: with those of the run, which a simulation could know.
InterMC-R is measured with the run's own cohort, rounds, deadline and work. *Bias* is predicted minus trained, in points. *In the band*: the
share of runs that ended inside the band of `fedfleet predict`, which is made for nine of ten. Fleets for which fewer than 5 commits are foreseen
were drawn again. How a prediction is made: [prediction](../docs/explanation/prediction.md).
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """A task as it is trained: by how much its deadlines are longer, and how many fleets of it are tried."""

    task: dict[str, Any]
    algorithm: dict[str, Any]
    rounds: int
    longer: float
    fleets: int


SETTINGS = {
    "wisdm": Setting({"use": "wisdm_cnn", "hidden": 32, "samples": 4000}, {"lr": 0.1, "epochs": 2}, 60, 1.5, 27),
    "digits": Setting({"use": "digits_mlp"}, {"lr": 0.1, "epochs": 2}, 100, 1.0, 36),
}


@dataclass(frozen=True, slots=True)
class Piece:
    """One fleet to be predicted and trained."""

    split: str
    task: str
    index: int
    out: Path

    @property
    def file(self) -> Path:
        """Where its figures lie."""
        return self.out / "fleets" / f"{self.split}-{self.task}-{self.index}.json"


def table_of(piece: Piece, attempt: int) -> dict[str, Any]:
    """The spec of a fleet, drawn from its number."""
    setting, number = SETTINGS[piece.task], FIRST[piece.split] + piece.index
    rng = np.random.default_rng([number, attempt, len(piece.task)])
    sigma, mbps = float(rng.choice([0.1, 0.5, 0.9, 1.4])), float(rng.choice([42.0, 60.0]))
    states: dict[str, Any] = {"use": "always_on"}
    if rng.random() > 0.3:
        states = {
            "use": "dpcsm",
            "alpha": float(rng.choice([1.0, 4.0, 100.0])),
            "start_rank": int(rng.choice([0, 30, 60, 100, 150])),
        }
    return {
        "seed": number + 10_000 * attempt,
        "task": setting.task,
        "world": {
            "clients": CLIENTS, "model_bytes": VIT, "split": [1, 0, 0], "states": states,
            "devices": {"use": "dpgmm", "sigma": sigma, "mean_mbps": mbps},
            "data": list(DATA.values())[piece.index % len(DATA)],
        },
        "algorithm": {"use": "fedavg", **setting.algorithm},
        "pace": {"use": "deadline", "cohort": COHORT, "seconds": setting.longer * float(rng.choice([100.0, 115.0, 130.0, 160.0, 240.0]))},
        "stop": {"rounds": setting.rounds},
        "run": {"execute": "stacked"},
    }  # fmt: skip


def tried(piece: Piece) -> dict[str, Any]:
    """Predict one fleet, then train on it; read what is known if that was done before."""
    if piece.file.is_file():
        return json.loads(piece.file.read_text())
    from fedfleet.app.assemble import assemble
    from fedfleet.app.predicting.participation import foreseen, other_seeds
    from fedfleet.app.predicting.predicting import predict
    from fedfleet.app.spec import resolve
    from fedfleet.core.errors import BadInput

    for attempt in range(TRIES):
        table = table_of(piece, attempt)
        spec = resolve(table, piece.file.stem)
        try:
            setup = assemble(spec)
        except BadInput:  # a state that is never ready
            continue
        if foreseen(setup, other_seeds(spec.seed, 1))[0][0].commits >= FEWEST:
            break
    else:
        raise SystemExit(f"{piece.file.stem}: no fleet in {TRIES} tries makes {FEWEST} commits")
    found = predict(spec, setup=setup, cache=piece.out / "reference")
    warm = predict(spec, setup=setup, reference=found.reference)  # how long it takes when everything has been loaded
    own = predict(
        spec, setup=setup, reference=found.reference, seeds=[spec.training_seed]
    )  # as if its choices were known
    row = {"name": piece.file.stem, "task": piece.task, "data": list(DATA)[piece.index % len(DATA)], "attempt": attempt, "table": table,
           **_predicted(found), "own": float(own.draws[0].accuracy[-1]), "seconds": warm.seconds, **_trained(setup), **_metrics(setup)}  # fmt: skip
    piece.file.parent.mkdir(parents=True, exist_ok=True)
    part = piece.file.with_suffix(".part")
    part.write_text(json.dumps(row))
    part.replace(piece.file)
    print(
        f"{row['name']}: predicted {row['predicted']:.3f}, trained {row['trained']:.3f}, {row['foreseen']:.0f} commits foreseen, {row['commits']} made",
        flush=True,
    )
    return row


def _predicted(found: Any) -> dict[str, Any]:
    from fedfleet.app.predicting.predicting import curve_of

    ideal = found.reference.ideal
    curves = [np.interp(MARKS, np.linspace(0, 1, len(d.accuracy)), d.accuracy) for d in found.draws]
    curve = curve_of(found)
    return {
        "predicted": float(np.mean([d.accuracy[-1] for d in found.draws])), "low": curve["low"][-1], "high": curve["high"][-1],
        "predicted_at": np.mean(curves, axis=0).tolist(), "foreseen": float(np.mean([d.part.commits for d in found.draws])),
        "effective": float(np.mean([d.clock.effective for d in found.draws])), "noise": ideal.noise,
        "untrained": float(ideal.accuracy[0]), "ideal": float(ideal.accuracy[-1]), "reference_seconds": found.reference.seconds,
    }  # fmt: skip


def _trained(setup: Any) -> dict[str, Any]:
    from fedfleet.app.assemble import executing
    from fedfleet.core.events import Evaluated, ModelCommitted
    from fedfleet.runtime.simulate import simulate

    start, log = time.perf_counter(), list[Any]()
    with executing(setup) as execute:
        simulate(
            setup.plan,
            setup.world,
            execute,
            watch=lambda events: log.extend(e for e in events if isinstance(e, Evaluated | ModelCommitted)),
        )
    curve = {e.version: e.correct / e.total for e in log if isinstance(e, Evaluated)}
    accuracy = np.array([curve[v] for v in sorted(curve)])
    return {
        "trained": float(accuracy[-1]), "trained_at": np.interp(MARKS, np.linspace(0, 1, len(accuracy)), accuracy).tolist(),
        "commits": sum(isinstance(e, ModelCommitted) for e in log), "training_seconds": time.perf_counter() - start,
    }  # fmt: skip


def _metrics(setup: Any) -> dict[str, Any]:
    """InterMC-R with the run's own cohort, rounds, deadline and work, and the standard deviation of link speeds."""
    from fedfleet.app.fleets.sampling import sample_devices, sample_states
    from fedfleet.app.predicting.participation import mean_samples
    from fedfleet.core.fleet import mean_kbps
    from fedfleet.measure.montecarlo.metrics import measure
    from fedfleet.measure.montecarlo.settings import Settings

    spec = setup.spec
    devices = sample_devices(spec.world["devices"], CLIENTS, spec.seed)
    always = spec.world["states"]["use"] == "always_on"
    states = _always_ready() if always else sample_states(spec.world["states"], CLIENTS, spec.seed)
    asked = Settings(
        k=COHORT, rounds=spec.stop["rounds"], deadline=spec.pace["seconds"], samples=mean_samples(setup), size_kb=VIT / 1000,
        t_break_asked=spec.pace["t_break"],
    )  # fmt: skip
    return {
        "InterMC-R": measure("InterMC-R", asked, devices, states, seeds=3).value,
        "speed sd": float(np.std(mean_kbps(devices))),
    }


def _always_ready() -> Any:
    from fedfleet.core.fleet import StateTable
    from fedfleet.core.intervals import traces

    day, n = np.full(CLIENTS, 86400.0), np.arange(CLIENTS + 1)
    return StateTable(np.array(["always"] * CLIENTS), traces(np.zeros(CLIENTS), day, n, np.zeros(CLIENTS), day))


# ---- what the fleets say together -----------------------------------------------------------------------------------


def interval(x: Any, y: Any, *, draws: int = 2000) -> tuple[float, float, float]:
    """Pearson's r with its 95 % percentile bootstrap interval over fleets, each of which has a draw of its own."""
    x, y, rng = np.asarray(x, float), np.asarray(y, float), np.random.default_rng(0)
    at = rng.integers(len(x), size=(draws, len(x)))
    a, b = x[at] - x[at].mean(axis=1, keepdims=True), y[at] - y[at].mean(axis=1, keepdims=True)
    below = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    found = (a * b).sum(axis=1)[below > 0] / below[below > 0]
    return float(np.corrcoef(x, y)[0, 1]), *(float(v) for v in np.percentile(found, [2.5, 97.5]))


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures of some fleets."""
    column = {
        name: np.array([row[name] for row in rows], float)
        for name in (
            "predicted",
            "own",
            "trained",
            "InterMC-R",
            "speed sd",
            "foreseen",
            "commits",
            "seconds",
            "low",
            "high",
        )
    }
    error = column["predicted"] - column["trained"]
    off = np.abs(column["foreseen"] - column["commits"]) / np.maximum(column["commits"], 1)
    return {
        "fleets": len(rows), "r": interval(column["predicted"], column["trained"]), "r_own": interval(column["own"], column["trained"]),
        "mean_error_own": float(np.abs(column["own"] - column["trained"]).mean()), "InterMC-R": interval(column["InterMC-R"], column["trained"]),
        "speed sd": interval(column["speed sd"], column["trained"]), "mean_error": float(np.abs(error).mean()), "bias": float(error.mean()),
        "commits_off_median": float(np.median(off)), "commits_off_worst": float(off.max()), "seconds_median": float(np.median(column["seconds"])),
        "seconds_worst": float(column["seconds"].max()), "in_band": float(np.mean((column["low"] <= column["trained"]) & (column["trained"] <= column["high"]))),
        "trained_sd": float(column["trained"].std()),
    }  # fmt: skip


def groups(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """All fleets, those of each task, those of each kind of data."""
    found = {"all": list(rows)}
    for key in ("task", "data"):
        for value in dict.fromkeys(row[key] for row in rows):
            found[value] = [row for row in rows if row[key] == value]
    return {name: some for name, some in found.items() if len(some) > 2}


def failing(rows: Sequence[dict[str, Any]], most: int = 6) -> list[dict[str, Any]]:
    """The fleets whose predictions were farthest off."""
    kept = ("name", "data", "predicted", "trained", "foreseen", "commits", "effective")
    worst = sorted(rows, key=lambda row: -abs(row["predicted"] - row["trained"]))[:most]
    return [{**{key: row[key] for key in kept}, "deadline": row["table"]["pace"]["seconds"]} for row in worst]


def markdown(split: str, found: dict[str, dict[str, Any]], worst: Sequence[dict[str, Any]]) -> str:
    """The table of a split, and where predictions fail."""

    def said(r: Sequence[float]) -> str:
        return f"{r[0]:.2f} [{r[1]:.2f}, {r[2]:.2f}]"

    lines = [
        f"## {split.capitalize()} fleets", "",
        "| fleets | r | r, own choices | InterMC-R's r | r of the speeds' sd | mean error, points (own choices) | bias | commits off, median | in the band | s a prediction, median (worst) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *(
            f"| {name} ({s['fleets']}) | {said(s['r'])} | {said(s['r_own'])} | {said(s['InterMC-R'])} | {said(s['speed sd'])} | {100 * s['mean_error']:.1f} ({100 * s['mean_error_own']:.1f}) | "
            f"{100 * s['bias']:+.1f} | {100 * s['commits_off_median']:.1f} % | {100 * s['in_band']:.0f} % | {s['seconds_median']:.2f} ({s['seconds_worst']:.2f}) |"
            for name, s in found.items()
        ),
        "", "Where it fails most:", "",
        "| fleet | data | deadline, s | predicted | trained | commits foreseen, made | share of samples |", "| --- | --- | --- | --- | --- | --- | --- |",
        *(
            f"| {row['name']} | {row['data']} | {row['deadline']:.0f} | {100 * row['predicted']:.1f} % | {100 * row['trained']:.1f} % | "
            f"{row['foreseen']:.0f}, {row['commits']} | {100 * row['effective']:.0f} % |"
            for row in worst
        ),
    ]  # fmt: skip
    return "\n".join([*lines, ""])


def page_of(record: dict[str, Any]) -> str:
    """The page of all splits that were tried, from studies/predict.json."""
    return "\n".join(
        [INTRODUCTION, *(markdown(split, got["summaries"], got["worst"]) for split, got in sorted(record.items()))]
    )


def publish(split: str, found: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Keep what a split says beside this program, and write the page."""
    record = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    record[split] = {"summaries": found, "worst": failing(rows)}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    RECORD.with_suffix(".md").write_text(page_of(record))


def band_of(rows: Sequence[dict[str, Any]], split: str) -> dict[str, Any]:
    """How far nine of ten runs lay below and above what was predicted, by progress, as a share of all that can be learnt."""
    progress, error = list[float](), list[float]()
    for row in rows:
        whole = max(row["ideal"] - row["untrained"], 1e-9)
        progress += [(p - row["untrained"]) / whole for p in row["predicted_at"]]
        error += [(t - p) / whole for p, t in zip(row["predicted_at"], row["trained_at"], strict=True)]
    at, off = np.array(progress), np.array(error)
    found: dict[str, list[float]] = {"progress": [], "below": [], "above": []}
    for low, high in itertools.pairwise(PLACES):
        some = off[(at >= low) & ((at < high) | (high == PLACES[-1]))]
        if len(some) >= 8:
            found["progress"].append(round(0.5 * (low + high), 4))
            found["below"].append(round(max(float(-np.percentile(some, TAIL)), 0.0), 4))
            found["above"].append(round(max(float(np.percentile(some, 100 - TAIL)), 0.0), 4))
    tasks = " and ".join(dict.fromkeys(row["task"] for row in rows))
    said = f"errors at four moments of {len(rows)} {split} fleets ({tasks}), none of which the method is judged on"
    return {**found, "said": said, "made": f"python -m studies.predict --split {split} --band FILE"}


def main(argv: Sequence[str] | None = None) -> None:
    """Try the fleets that are asked for, and write what they say together."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=list(FIRST), default="development")
    parser.add_argument("--task", default=",".join(SETTINGS), help="digits, wisdm or both, separated by a comma")
    parser.add_argument("--fleets", type=int, help="how many of each task; default: as many as its setting says")
    parser.add_argument("--out", type=Path, default=Path("results/predict"))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--band", type=Path, help="write the error band to this file")
    parser.add_argument("--publish", action="store_true", help="write studies/predict.json and studies/predict.md")
    asked = parser.parse_args(argv)
    from fedfleet.runtime.processes import in_processes

    pieces = [
        Piece(asked.split, task, i, asked.out)
        for task in asked.task.split(",")
        for i in range(asked.fleets or SETTINGS[task].fleets)
    ]
    start = time.perf_counter()
    rows = sorted(
        (row for _, row in in_processes(tried, pieces, asked.workers)),
        key=lambda row: (row["task"], int(row["name"].rpartition("-")[2])),
    )
    found = {name: summary(some) for name, some in groups(rows).items()}
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / f"predict-{asked.split}.json").write_text(
        json.dumps({"split": asked.split, "summaries": found, "fleets": rows})
    )
    text = markdown(asked.split, found, failing(rows))
    if asked.publish:
        publish(asked.split, found, rows)
    (asked.out / f"predict-{asked.split}.md").write_text(text)
    if asked.band is not None:
        asked.band.write_text(json.dumps(band_of(rows, asked.split), indent=1) + "\n")
    print(f"{text}\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
