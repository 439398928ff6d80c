"""The demo's two studies, demo.toml and users.toml, and their runs: performed together in one folder, in worker processes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from fedfleet.app.studies.compare.records import ComparedRun
from fedfleet.app.studies.compare.run_data import read_run
from fedfleet.app.studies.grid.study_file import read_study
from fedfleet.app.studies.grid.study_jobs import LOG, WorkerSettings, carry_out_runs, processor_count
from fedfleet.app.studies.grid.study_progress import board, show_board
from fedfleet.app.studies.grid.study_runs import RUNS, Cell, expand_study
from fedfleet.core.errors import BadInput, RunFailed

STUDY, USER_STUDY = (read_study(Path(__file__).with_name(name)) for name in ("demo.toml", "users.toml"))
WAITING, WITH_DEADLINE = "FedAvg, waiting", "FedAvg, deadline"
USERS = "users"  # in place of a fleet: devices that belong to people
MARKER = ".fedfleet-demo"

_patient, _hurried = (next(arm.settings for arm in STUDY.arms if arm.name.startswith(way)) for way in (WAITING, WITH_DEADLINE))
CLIENTS: int = STUDY.base["world"]["clients"]
COHORT: int = _hurried["pace.cohort"]
DEADLINE: float = _hurried["pace.seconds"]
HOURS: int = round(_hurried["stop.virtual_seconds"] / 3600)
ROUNDS: int = _patient["stop.rounds"]  # of those that wait
MINUTES: int = round(USER_STUDY.base["stop"]["virtual_seconds"] / 60)
DEVICES: int = USER_STUDY.base["world"]["clients"]

# What the page says of each fleet, each way to train on it, and each method for the devices of people.
FLEETS = {
    "mild": "Similar phones on similar links, always reachable; all clients have a similar mixture of digits.",
    "middle": "Link speeds differ severalfold, phones are reachable a quarter of the day, and data differ clearly.",
    "severe": "Some links are hardly usable, phones are reachable a tenth of the day, and most hold only a few different digits.",
}
WAYS = {
    WAITING: f"Averages the models of {COHORT} clients; a round ends when all {COHORT} have reported, however long that takes.",
    WITH_DEADLINE: f"The same, but a round ends after {DEADLINE:.0f} s; late reports are dropped.",
    "FedProx": f"With the deadline of {DEADLINE:.0f} s; local training stays near the model that was sent.",
    "Oort": f"With the deadline of {DEADLINE:.0f} s; prefers clients with informative data and fast phones.",
    "FedBuff": f"Asynchronous: every {COHORT} reports make a new model, whenever they arrive, and stale ones count less.",
    "BiasPrompt+": "A backbone pretrained on other pictures stays frozen; biases, prompts and the last layer are trained and sent.",
}
METHODS = {
    "FedAvg": "Devices are selected one by one, no matter whose they are.",
    "HierFL": "A user's devices are averaged three times among themselves before anything goes to the server.",
    "ShuffleFL": "Before training, a user's devices exchange samples, so that all finish together and hold similar mixtures.",
}
# These take longest, and begin first, so that no processor is left alone with one of them at the end.
_LONGEST = ("BiasPrompt+", "ShuffleFL", "FedBuff")


@dataclass(frozen=True, slots=True)
class DemoRun:
    """One run of the demo: its cell of a study, the fleet, the way to train, and its folder."""

    fleet: str
    way: str
    cell: Cell
    out: Path


RunsByWay = dict[tuple[str, str], list[ComparedRun]]  # by fleet and way, in the order of the seeds


def take_demo_folder(out: Path) -> None:
    """Make an empty folder for the demo, and mark it as one: an earlier demo is replaced, anything else is refused."""
    try:
        if out.is_dir() and any(out.iterdir()):
            if not (out / MARKER).is_file():
                raise BadInput(f"{out} exists and is not a demo; choose another folder with --out")
            shutil.rmtree(out)
        out.mkdir(parents=True, exist_ok=True)
        (out / MARKER).write_text("made by fedfleet demo; the next demo replaces this folder\n", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot write to the folder {out}: {error}; choose another with --out") from None


def demo_runs(out: Path) -> list[DemoRun]:
    """All runs in the order of the report: fleets, ways, seeds; the users' study comes last."""
    fleet_runs = [(*cell.arm.rpartition(", ")[::2], cell) for cell in expand_study(STUDY)]
    runs = [(fleet, way, cell) for fleet in FLEETS for way, of_fleet, cell in fleet_runs if of_fleet == fleet]
    runs += [(USERS, cell.arm, cell) for cell in expand_study(USER_STUDY)]
    return [DemoRun(fleet, way, cell, out / RUNS / _folder_name(fleet, way, cell.seed)) for fleet, way, cell in runs]


def _folder_name(fleet: str, way: str, seed: int) -> str:
    """The folder of a run: severe-deadline-7."""
    return f"{fleet}-{way.rpartition(', ')[2].lower().rstrip('+')}-{seed}"


def run_demo(out: Path, *, quiet: bool = False) -> RunsByWay:
    """Perform all runs, with a worker for each processor; a run that cannot be finished is reported with its reason."""
    runs = sorted(demo_runs(out), key=lambda run: _LONGEST.index(run.way) if run.way in _LONGEST else len(_LONGEST))
    cells, outs = [run.cell for run in runs], [run.out for run in runs]
    with show_board(board(cells, []), quiet=quiet) as on_news:
        failures = carry_out_runs(cells, outs, WorkerSettings(processor_count()), log=out / LOG, on_news=on_news)
    for run, failure in zip(runs, failures, strict=True):
        if failure:
            raise RunFailed(f"the demo's run {run.out.name} could not be finished: {failure}")
    return read_demo(out)


def read_demo(out: Path) -> RunsByWay:
    """The runs of a demo that has been performed."""
    result: RunsByWay = {}
    for run in demo_runs(out):
        result.setdefault((run.fleet, run.way), []).append(read_run(run.out, run.out.name))
    return result
