"""Predict before you train: does it hold on fleets that nobody looked at before?

    python -m studies.predict --split development --workers 2      (fleets 0, 1, ..: on these the method was made)
    python -m studies.predict --split test --workers 16            (fleets 1000, 1001, ..: on these its first form was judged)
    python -m studies.predict --split calibration                  (fleets 3000, ..: on these it was given gammas by task)
    python -m studies.predict --split fresh                        (fleets 6000, ..: on these that is judged)

Every fleet has devices, states and a deadline of its own; each is predicted (with other draws than the run's own) and then trained.
In the first two splits every fleet has data and a first model of its own as well, in the last two some fleets share them, and with
them the reference runs; and beside what is foretold stands what would have been with gamma = 0.15 for every task, as before. What is
known of a fleet is kept in OUT/fleets, so that a second call goes on where the first ended; the table
is OUT/predict-SPLIT.md, all figures are OUT/predict-SPLIT.json. `--band FILE` writes the error band of `fedfleet predict` from these
fleets. WISDM is read from $FEDFLEET_DATA. How a prediction is made and what came out: docs/explanation/prediction.md.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from studies.predicted import band_of, failing, groups, markdown, publish, summary

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core for each worker

CLIENTS, COHORT, VIT = 100, 20, 343_200_776
FEWEST = 5  # fleets for which fewer commits are foreseen are drawn again: of those everybody knows that nothing is learnt
TRIES = 40
DATA: dict[str, dict[str, Any]] = {
    "iid": {"use": "iid"},
    "dirichlet .5": {"use": "dirichlet", "alpha": 0.5},
    "dirichlet .1": {"use": "dirichlet", "alpha": 0.1},
}
FIRST = {"development": 0, "test": 1000, "calibration": 3000, "fresh": 6000}
BEFORE = 0.15  # gamma of every task, before it was read off reference runs
MARKS = (0.25, 0.5, 0.75, 1.0)  # of a run's commits: where the band is looked at


@dataclass(frozen=True, slots=True)
class Setting:
    """A task as it is trained: by how much its deadlines are longer, and how it is executed.

    `fleets` are how many of each split, and with how many draws of data and first models; None: every fleet has its own. So many
    fleets of each kind of data take `turns` with one draw before the next.
    """

    task: dict[str, Any]
    algorithm: dict[str, Any]
    rounds: int
    longer: float
    fleets: dict[str, tuple[int, int | None]]
    execute: str = "stacked"
    turns: int = 1


def _each(first: int, calibration: tuple[int, int], fresh: tuple[int, int]) -> dict[str, tuple[int, int | None]]:
    return {"development": (first, None), "test": (first, None), "calibration": calibration, "fresh": fresh}


LEARNING: dict[str, Any] = {"lr": 0.1, "epochs": 2}
SETTINGS = {
    "digits": Setting({"use": "digits_mlp"}, LEARNING, 100, 1.0, _each(36, (24, 2), (42, 4))),
    "wisdm": Setting(
        {"use": "wisdm_cnn", "hidden": 32, "samples": 4000}, LEARNING, 60, 1.5, _each(27, (7, 1), (36, 2)), "inline", 6
    ),
    "fashion": Setting({"use": "fashion_mlp", "samples": 4000}, LEARNING, 60, 1.0, {"fresh": (21, 2)}),
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


def tasks_of(split: str) -> list[str]:
    """Those that a split has fleets of."""
    return [task for task, setting in SETTINGS.items() if split in setting.fleets]


def table_of(piece: Piece, attempt: int) -> dict[str, Any]:
    """The spec of a fleet, drawn from its number."""
    setting, number = SETTINGS[piece.task], FIRST[piece.split] + piece.index
    shared = setting.fleets[piece.split][1]
    rng = np.random.default_rng([number, attempt, len(piece.task), *([77] if shared else [])])
    sigma, mbps = float(rng.choice([0.1, 0.5, 0.9, 1.4])), float(rng.choice([42.0, 60.0]))
    states: dict[str, Any] = {"use": "always_on"}
    if rng.random() > 0.3:
        states = {
            "use": "dpcsm",
            "alpha": float(rng.choice([1.0, 4.0, 100.0])),
            "start_rank": int(rng.choice([0, 30, 60, 100, 150])),
        }
    drawn = FIRST[piece.split] + piece.index // (setting.turns * len(DATA)) % (shared or 1)
    return {
        "seed": number + 10_000 * attempt,
        **({"seeds": {"data": drawn, "training": drawn}} if shared else {}),
        "task": setting.task,
        "world": {
            "clients": CLIENTS, "model_bytes": VIT, "split": [1, 0, 0], "states": states,
            "devices": {"use": "dpgmm", "sigma": sigma, "mean_mbps": mbps},
            "data": list(DATA.values())[piece.index % len(DATA)],
        },
        "algorithm": {"use": "fedavg", **setting.algorithm},
        "pace": {"use": "deadline", "if_few": "fail", "cohort": COHORT, "seconds": setting.longer * float(rng.choice([100.0, 115.0, 130.0, 160.0, 240.0]))},
        "stop": {"rounds": setting.rounds, **({"evaluate_every": 3} if shared else {})},
        "run": {"execute": setting.execute},
    }  # fmt: skip


def tried(piece: Piece) -> dict[str, Any]:
    """Predict one fleet, then train on it; read what is known if that was done before."""
    if piece.file.is_file():
        return json.loads(piece.file.read_text())
    from fedfleet.app.assemble import assemble
    from fedfleet.app.spec import resolve
    from fedfleet.app.studies.predict.participation import expected_participation, other_seeds
    from fedfleet.app.studies.predict.prediction import predict
    from fedfleet.core.errors import BadInput

    for attempt in range(TRIES):
        table = table_of(piece, attempt)
        spec = resolve(table, piece.file.stem)
        try:
            setup = assemble(spec)
        except BadInput:  # a state that is never ready
            continue
        if expected_participation(setup, other_seeds(spec.seed, 1))[0][0].commits >= FEWEST:
            break
    else:
        raise SystemExit(f"{piece.file.stem}: no fleet in {TRIES} tries makes {FEWEST} commits")
    found = predict(spec, setup=setup, cache=piece.out / "reference")
    warm = predict(spec, setup=setup, reference=found.reference)  # how long it takes when everything has been loaded
    own = predict(spec, setup=setup, reference=found.reference, seeds=[spec.training_seed])  # as if its choices were known
    row = {"name": piece.file.stem, "task": piece.task, "data": list(DATA)[piece.index % len(DATA)], "attempt": attempt, "table": table,
           **_predicted(found), **_before(found, piece), "own": float(own.draws[0].accuracy[-1]), "seconds": warm.seconds, **_trained(setup), **_metrics(setup)}  # fmt: skip
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
    from fedfleet.app.studies.predict.prediction import curve_of

    ideal = found.reference.ideal
    curves = [np.interp(MARKS, np.linspace(0, 1, len(d.accuracy)), d.accuracy) for d in found.draws]
    curve = curve_of(found)
    return {
        "predicted": float(np.mean([d.accuracy[-1] for d in found.draws])), "low": curve["low"][-1], "high": curve["high"][-1],
        "predicted_at": np.mean(curves, axis=0).tolist(), "foreseen": float(np.mean([d.part.commits for d in found.draws])),
        "effective": float(np.mean([d.clock.effective for d in found.draws])), "noise": ideal.noise,
        "untrained": float(ideal.accuracy[0]), "ideal": float(ideal.accuracy[-1]), "reference_seconds": found.reference.seconds,
    }  # fmt: skip


def _before(found: Any, piece: Piece) -> dict[str, Any]:
    """What the form before foretells: gamma = 0.15 for every task from the first commit on, the noise by the run of small cohorts."""
    if SETTINGS[piece.task].fleets[piece.split][1] is None:
        return {}
    from fedfleet.app.assemble import assemble
    from fedfleet.app.studies.predict.reference_runs import FEW, ideal_spec
    from fedfleet.measure.calibration import noises
    from fedfleet.measure.class_clock import class_clock, curve_at, scarcity
    from fedfleet.simulation.dry_run import dry_run

    spec, fleet, small, ideal = found.setup.spec, found.fleet, found.reference.small, found.reference.ideal
    few = assemble(ideal_spec(spec, FEW, spec.stop["rounds"], fixed_length=True), found.setup.task)
    part = dry_run(replace(few.plan, stop=replace(few.plan.stop, commits=len(small) - 1)), few.world)

    def told(who: Any, noise: float) -> Any:
        clock = class_clock(who, fleet.labels, cohort=ideal.cohort, noise=noise)
        error = (1.0 - curve_at(ideal.accuracy, clock.classes)) * scarcity(clock, ideal) ** -BEFORE
        got = (1.0 - np.minimum(error, 1.0)) @ fleet.test
        return np.maximum(np.concatenate([ideal.accuracy[:1], got[1:]]), ideal.accuracy[0])

    noise = min(noises(FEW, ideal.cohort), key=lambda b: float(np.sum((told(part, b) - small) ** 2)))
    drawn = f"{piece.task}, {list(DATA)[piece.index % len(DATA)]}, {spec.data_seed}"
    before = float(np.mean([told(draw.part, noise)[-1] for draw in found.draws]))
    return {"before": before, "cluster": drawn, "exponent": ideal.exponent}


def _trained(setup: Any) -> dict[str, Any]:
    from fedfleet.app.assemble import open_executor
    from fedfleet.core.events import Evaluated, ModelCommitted
    from fedfleet.simulation.simulator import simulate

    start, log = time.perf_counter(), list[Any]()
    with open_executor(setup) as execute:
        simulate(
            setup.plan,
            setup.world,
            execute,
            watch=lambda events: log.extend(e for e in events if isinstance(e, Evaluated | ModelCommitted)),
        )
    curve = {e.version: e.correct / e.total for e in log if isinstance(e, Evaluated)}
    versions = sorted(curve)
    accuracy = np.interp(np.arange(versions[-1] + 1), versions, [curve[v] for v in versions])
    return {
        "trained": float(accuracy[-1]), "trained_at": np.interp(MARKS, np.linspace(0, 1, len(accuracy)), accuracy).tolist(),
        "commits": sum(isinstance(e, ModelCommitted) for e in log), "training_seconds": time.perf_counter() - start,
    }  # fmt: skip


def _metrics(setup: Any) -> dict[str, Any]:
    """InterMC-R with the run's own cohort, rounds, deadline and work, and the standard deviation of link speeds."""
    from fedfleet.app.fleets.fleet_samples import sample_devices, sample_states
    from fedfleet.app.studies.predict.participation import mean_samples
    from fedfleet.core.fleet import mean_kbps
    from fedfleet.measure.montecarlo.metrics import measure
    from fedfleet.measure.montecarlo.settings import Settings

    spec = setup.spec
    devices = sample_devices(spec.world["devices"], CLIENTS, spec.seed)
    states = _always_ready() if setup.world.states.always else sample_states(spec.world["states"], CLIENTS, spec.seed)
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


def main(argv: Sequence[str] | None = None) -> None:
    """Try the fleets that are asked for, and write what they say together."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=list(FIRST), default="development")
    parser.add_argument("--task", help="digits, wisdm, fashion or more than one, separated by commas")
    parser.add_argument("--fleets", type=int, help="how many of each task; default: as many as its setting says")
    parser.add_argument("--out", type=Path, default=Path("results/predict"))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--band", type=Path, help="write the error band to this file")
    parser.add_argument("--publish", action="store_true", help="write studies/predict.json and studies/predict.md")
    asked = parser.parse_args(argv)
    from fedfleet.executors.worker_pool import map_in_processes

    pieces = [
        Piece(asked.split, task, i, asked.out)
        for task in (asked.task.split(",") if asked.task else tasks_of(asked.split))
        for i in range(asked.fleets or SETTINGS[task].fleets[asked.split][0])
    ]
    start = time.perf_counter()
    rows = sorted(
        (row for _, row in map_in_processes(tried, pieces, asked.workers)),
        key=lambda row: (row["task"], int(row["name"].rpartition("-")[2])),
    )
    found = {name: summary(some) for name, some in groups(rows).items()}
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / f"predict-{asked.split}.json").write_text(json.dumps({"split": asked.split, "summaries": found, "fleets": rows}))
    text = markdown(asked.split, found, failing(rows))
    if asked.publish:
        publish(asked.split, found, rows)
    (asked.out / f"predict-{asked.split}.md").write_text(text)
    if asked.band is not None:
        asked.band.write_text(json.dumps(band_of(rows, asked.split), indent=1) + "\n")
    print(f"{text}\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
