"""The demo's two studies, demo.toml and users.toml, and their runs: performed together in one folder, one fleet after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from fedfleet.app.studies.compare.records import ComparedRun
from fedfleet.app.studies.compare.run_data import read_run
from fedfleet.app.studies.grid.study_file import read_study
from fedfleet.app.studies.grid.study_jobs import LOG, RunNews, WorkerSettings, carry_out_runs
from fedfleet.app.studies.grid.study_progress import board, show_board
from fedfleet.app.studies.grid.study_runs import RUNS, Cell, expand_study, has_seal
from fedfleet.core.errors import RunFailed

STUDY, USER_STUDY = (read_study(Path(__file__).with_name(name)) for name in ("demo.toml", "users.toml"))
WAITING, WITH_DEADLINE, ASYNCHRONOUS = "FedAvg, waiting", "FedAvg, deadline", "FedBuff"
USERS = "users"  # in place of a fleet: devices that belong to people

_hurried = next(arm.settings for arm in STUDY.arms if arm.name.startswith(WITH_DEADLINE))
CLIENTS: int = STUDY.base["world"]["clients"]
COHORT: int = _hurried["pace.cohort"]
DEADLINE: float = _hurried["pace.seconds"]
SECONDS: float = STUDY.base["stop"]["virtual_seconds"]
HOURS: int = round(SECONDS / 3600)
MINUTES: int = round(USER_STUDY.base["stop"]["virtual_seconds"] / 60)
DEVICES: int = USER_STUDY.base["world"]["clients"]

# What the page says of each fleet, each way to train on it, and each method for the devices of people.
FLEETS = {
    "mild": "Similar phones on similar links, always reachable; all clients have a similar mixture of digits.",
    "middle": "Link speeds differ severalfold, phones are reachable a quarter of the day, and data differ clearly.",
    "severe": "Some links are hardly usable, phones are reachable an eighth of the day, and most hold only a few different digits.",
}
WAYS = {
    WAITING: f"Averages the models of {COHORT} clients; a round ends when all {COHORT} have reported, however long that takes.",
    WITH_DEADLINE: f"The same, but a round ends after {DEADLINE:.0f} s; late reports are dropped.",
    ASYNCHRONOUS: f"Asynchronous: every {COHORT} reports make a new model, whenever they arrive, and stale ones count less.",
}
METHODS = {
    "FedAvg": "Devices are selected one by one, no matter whose they are.",
    "HierFL": "A user's devices are averaged three times among themselves before anything goes to the server.",
    "ShuffleFL": "Before training, a user's devices exchange samples, so that all finish together and hold similar mixtures.",
}
# These take longest, and begin first, so that no processor is left alone with one of them at the end.
_LONGEST = ("ShuffleFL", ASYNCHRONOUS)


@dataclass(frozen=True, slots=True)
class DemoRun:
    """One run of the demo: its cell of a study, the fleet, the way to train, and its folder."""

    fleet: str
    way: str
    cell: Cell
    out: Path


RunsByWay = dict[tuple[str, str], list[ComparedRun]]  # by fleet and way, in the order of the seeds
FleetListener = Callable[[str, RunsByWay], None]


def demo_runs(out: Path, shift: int = 0) -> list[DemoRun]:
    """All runs in the order of the report: fleets, ways, seeds; the users' study comes last. `shift` is added to every seed."""
    fleet_study, user_study = (replace(one, seeds=tuple(seed + shift for seed in one.seeds)) for one in (STUDY, USER_STUDY))
    fleet_runs = [(*cell.arm.rpartition(", ")[::2], cell) for cell in expand_study(fleet_study)]
    runs = [(fleet, way, cell) for fleet in FLEETS for way, of_fleet, cell in fleet_runs if of_fleet == fleet]
    runs += [(USERS, cell.arm, cell) for cell in expand_study(user_study)]
    return [DemoRun(fleet, way, cell, out / RUNS / _folder_name(fleet, way, cell.seed)) for fleet, way, cell in runs]


def _folder_name(fleet: str, way: str, seed: int) -> str:
    """The folder of a run: severe-deadline-7."""
    return f"{fleet}-{way.rpartition(', ')[2].lower()}-{seed}"


def run_demo(
    out: Path,
    workers: WorkerSettings,
    *,
    on_fleet: FleetListener = lambda fleet, runs: None,
    quiet: bool = False,
    shift: int = 0,
) -> RunsByWay:
    """Perform all runs; a run that cannot be finished is reported with its reason.

    `on_fleet` gets the runs of each fleet as soon as all of them are finished, while the next one trains.
    """
    runs, fleets = demo_runs(out, shift), (*FLEETS, USERS)
    ways = (*_LONGEST, *(way for way in (*WAYS, *METHODS) if way not in _LONGEST))
    begun = sorted(runs, key=lambda run: (fleets.index(run.fleet), ways.index(run.way)))
    result: RunsByWay = {}
    cells, outs = [run.cell for run in begun], [run.out for run in begun]
    unread = list(fleets)

    def read_finished_fleet() -> None:
        of_fleet = [run for run in runs if run.fleet == unread[0]] if unread else []
        if of_fleet and all(has_seal(run.out) for run in of_fleet):
            result.update(_read_runs(of_fleet))
            on_fleet(unread.pop(0), result)

    with show_board(board(cells, []), quiet=quiet) as on_news:

        def take_news(news: RunNews) -> None:
            on_news(news)
            if news.is_over:
                read_finished_fleet()

        turns = [run.fleet for run in begun]
        failures = carry_out_runs(cells, outs, workers, log=out / LOG, on_news=take_news, turns=turns)
        for _ in fleets:
            read_finished_fleet()
    for run, failure in zip(begun, failures, strict=True):
        if failure:
            raise RunFailed(f"the demo's run {run.out.name} could not be finished: {failure}")
    return result


def read_demo(out: Path) -> RunsByWay:
    """The runs of a demo that has been performed."""
    return _read_runs(demo_runs(out))


def _read_runs(runs: list[DemoRun]) -> RunsByWay:
    result: RunsByWay = {}
    for run in runs:
        result.setdefault((run.fleet, run.way), []).append(read_run(run.out, run.out.name))
    return result
