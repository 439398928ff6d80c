"""A fleet whose devices train with torch, numpy and MNN, client by client, beside one that trains with torch alone.

    python -m benchmarks.mixed_fleet [--tasks digits_cnn har_cnn] [--seeds 0 1 2 3 4] [--rounds 60]
    python -m benchmarks.mixed_fleet --served [--tasks digits_cnn]

The first simulates both fleets with the same clients, picks and batches, and compares what they reach. A third fleet shows what
rounding alone does: torch again, from first weights that are moved by the last bit. The second serves one run to
device processes, a third of them with each engine, and compares the model with that of the mixed simulation, bit for bit.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from fedfleet.core.events import Evaluated, Event
from fedfleet.core.parts import Executor, Job, Task, Trial
from fedfleet.core.records import Report, Score
from fedfleet.core.trees import Tree

ENGINES = ("torch", "numpy", "mnn")
ARMS = ("torch", "mixed", "moved")
_LAST = 10  # evaluations, one a round: a single one says more of its round than of the fleet
SPECS: dict[str, dict[str, Any]] = {
    "digits_cnn": {
        "world": {"clients": 30, "data": {"use": "dirichlet", "alpha": 0.5}},
        "algorithm": {"lr": 0.1, "batch": 16, "steps": 20},
    },
    "har_cnn": {
        "world": {"clients": 30, "data": {"use": "by_owner", "merge_owners": True}},
        "algorithm": {"lr": 0.02, "batch": 16, "steps": 10},
    },
}
_SERVED = 6  # devices


def engine_of(client: int) -> str:
    """The engine of this client's device."""
    return ENGINES[client % len(ENGINES)]


def mixed_executor(task: Task) -> Executor:
    """Each client's passes by the engine of its device; models are evaluated with torch, as on the server."""
    from fedfleet.executors.described_executor import described_executor
    from fedfleet.executors.inline import inline

    executors = {"torch": inline(task, threads=1), **{n: described_executor(n, task) for n in ENGINES[1:]}}

    def train(jobs: Sequence[Job]) -> Iterator[Report]:
        for job in jobs:
            yield from executors[engine_of(job.client)].train([job])

    def evaluate(trials: Sequence[Trial]) -> Iterable[Score]:
        return executors["torch"].evaluate(trials)

    return Executor("mixed", train, evaluate)


def simulated(spec: dict[str, Any], arm: str) -> tuple[float, Tree]:
    """The mean accuracy of a fleet's last models, and the last model. `moved`: PyTorch from first weights that lie a rounding away."""
    from fedfleet.app.assemble import assemble
    from fedfleet.app.spec import resolve
    from fedfleet.executors.inline import inline
    from fedfleet.simulation.simulator import simulate

    setup = assemble(resolve(spec))
    plan, events = setup.plan, list[Event]()
    if arm == "moved":
        plan = replace(plan, params={n: np.nextafter(v, v.dtype.type(np.inf)) for n, v in plan.params.items()})
    execute = mixed_executor(setup.task) if arm == "mixed" else inline(setup.task, threads=1)
    end = simulate(plan, setup.world, execute, watch=events.extend)
    scores = [e.correct / e.total for e in events if isinstance(e, Evaluated)]
    return mean(scores[-_LAST:]), setup.task.whole(end.state.server.params)


def compare(name: str, seeds: Sequence[int], rounds: int) -> None:
    """The three fleets, seed by seed."""
    reached: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for seed in seeds:
        spec = {"task": name, "seed": seed, "pace": {"cohort": 10}, "stop": {"rounds": rounds}, **SPECS[name]}
        models: dict[str, Tree] = {}
        for arm in ARMS:
            accuracy, models[arm] = simulated(spec, arm)
            reached[arm].append(100 * accuracy)
        gaps = [_largest_gap(models["torch"], models[arm]) for arm in ARMS[1:]]
        figures = ", ".join(f"{arm} {reached[arm][-1]:.2f} %" for arm in ARMS)
        print(f"{name:11s} seed {seed}: {figures}; models lie {gaps[0]:.0e} and {gaps[1]:.0e} from torch's", flush=True)
    for arm in ARMS[1:]:
        differences = [b - a for a, b in zip(reached["torch"], reached[arm], strict=True)]
        spread = stdev(differences) if len(seeds) > 1 else 0.0
        print(
            f"{name:11s} {arm} - torch: {mean(differences):+.2f} points (from {min(differences):+.2f} to {max(differences):+.2f}, "
            f"deviation {spread:.2f}); torch {mean(reached['torch']):.2f} %, {arm} {mean(reached[arm]):.2f} %"
        )


def _largest_gap(literal: Tree, model: Tree) -> float:
    return max(float(np.abs(model[n].astype(np.float64) - v).max()) for n, v in literal.items())


def served(name: str, rounds: int = 3) -> None:
    """One run over the loopback to device processes, beside its simulation."""
    import tomli_w
    from safetensors.numpy import load_file

    spec = {"task": name, "seed": 1, "pace": {"cohort": _SERVED, "t_break": 0.01}, "stop": {"rounds": rounds}, **SPECS[name]}
    spec["world"] = {**spec["world"], "clients": _SERVED}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "spec.toml").write_text(tomli_w.dumps(spec))
        command = [sys.executable, "-m", "fedfleet"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        out = folder / "run"
        listen = ["--address", address, "--out", str(out), "--devices", str(_SERVED), "--open-enrolment"]
        processes = [subprocess.Popen([*command, "serve", str(folder / "spec.toml"), *listen], env=environment)]
        try:
            time.sleep(2)  # devices try again until the server listens
            for client in range(_SERVED):
                own = ["--client", str(client), "--store", str(folder / f"device{client}"), "--engine", engine_of(client)]
                processes.append(subprocess.Popen([*command, "device", "--server", address, *own], env=environment))
            codes = [process.wait(600) for process in processes]
        finally:
            for process in processes:
                process.kill()
        model = load_file(out / "model.safetensors")
    accuracy, expected = simulated(spec, "mixed")
    same = all(np.array_equal(model[n], v) for n, v in expected.items())
    gap = max(float(np.abs(model[n].astype(np.float64) - v).max()) for n, v in expected.items())
    print(
        f"{name}: exit codes {codes}; the served model is {'that' if same else f'{gap:.0e} from that'} of the simulation, {accuracy:.2%}"
    )


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=list(SPECS), default=list(SPECS))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--served", action="store_true")
    asked = parser.parse_args()
    for name in asked.tasks:
        if asked.served:
            served(name)
        else:
            compare(name, asked.seeds, asked.rounds)


if __name__ == "__main__":
    main()
