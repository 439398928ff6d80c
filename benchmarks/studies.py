"""A study of 24 runs on this machine: one after the other, inline and stacked, against `fedfleet study` in processes and joined.

    python -m benchmarks.studies --rounds 100 --cohort 10
    python -m benchmarks.studies --pages                    (with the page of every run, on both sides)

Every way makes the same runs; inline ones have the digests of inline, stacked ones those of stacked alone. Real time of each way from
its first process to its last table; run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from fedfleet.app.runs import read_finished_run
from fedfleet.app.runs.conditions import stored_conditions
from fedfleet.app.studies.grid.joint_jobs import FORMS_FILE, joint_groups, shape_of
from fedfleet.app.studies.grid.run_study import load_study
from fedfleet.app.studies.grid.study_runs import expand_study, run_folders

STUDY = """
name = "bench"
seeds = {seeds}
[grid]
algorithm.lr = [0.05, 0.1, 0.2, 0.3]
[base]
task.use = "digits_mlp"
world = {{ clients = 100, devices = "spread", data = {{ use = "dirichlet", alpha = 0.5 }} }}
pace = {{ use = "readiness", cohort = {cohort} }}
stop = {{ rounds = {rounds}, evaluate_every = {every} }}
run.execute = "{execute}"
"""
# One after the other in one process: what somebody would write without a study. A list of spec files and folders comes as words.
ONE_BY_ONE = """
import sys
from pathlib import Path
from fedfleet.app.runs import perform
from fedfleet.app.runs.conditions import kept_conditions
from fedfleet.app.spec import load_spec
pages, *words = sys.argv[1:]
if pages == "pages":
    from fedfleet.app.pages.report_page import write_report
first = None  # what the first run measured to be fastest, all others take: the form of stacks decides the last bits
for spec, out in zip(words[::2], words[1::2]):
    done = perform(load_spec(spec), Path(out), conditions=first)
    first = first or kept_conditions(Path(out))
    if pages == "pages":
        write_report(done)
"""
WITHOUT_PAGES = """
from pathlib import Path
import sys
from fedfleet.app.studies.grid.run_study import study
from fedfleet.app.studies.grid.study_jobs import WorkerSettings
study(Path(sys.argv[1]), Path(sys.argv[2]), worker_settings=WorkerSettings(workers=int(sys.argv[3])), quiet=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--cohort", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--evaluate-every", type=int, default=10)
    parser.add_argument("--pages", action="store_true", help="write the page of every run too")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        compare(Path(place), asked)


def compare(place: Path, asked: argparse.Namespace) -> None:
    """Time every way, and compare digests with those of the way that is its measure."""
    files = {how: _file(place, how, asked) for how in ("inline", "stacked")}
    n = str(asked.workers)
    ways: dict[str, tuple[str, Callable[[Path], None]]] = {
        "inline, one after the other": ("inline", lambda out: _one_by_one(files["inline"], out, pages=asked.pages)),
        "stacked, one after the other": ("stacked", lambda out: _one_by_one(files["stacked"], out, pages=asked.pages)),
        f"study, inline in {n} processes": ("inline", lambda out: _study(files["inline"], out, n, pages=asked.pages)),
        "study, stacked and joined in one process": (
            "stacked",
            lambda out: _study(files["stacked"], out, "1", place / "1", pages=asked.pages),
        ),
        f"study, stacked and joined in {n} processes": (
            "stacked",
            lambda out: _study(files["stacked"], out, n, place / "1", pages=asked.pages),
        ),
    }
    found: dict[str, tuple[float, list[str]]] = {}
    for i, (way, (how, go)) in enumerate(ways.items()):
        out = place / str(i)
        start = time.perf_counter()
        go(out)
        found[way] = time.perf_counter() - start, _digests(files[how], out)
        _say(way, how, found)
    joined = [len(g) for g in joint_groups([c.spec for c in expand_study(load_study(files["stacked"]))], workers=asked.workers)]
    print(f"groups that advance together: {joined}")


def _say(way: str, how: str, found: dict[str, tuple[float, list[str]]]) -> None:
    seconds, digests = found[way]
    inline = found["inline, one after the other"][0]
    stacked = found.get("stacked, one after the other", (float("nan"), []))[0]
    same = digests == found[f"{how}, one after the other"][1]
    ratios = f"{inline / seconds:.2f}x inline, {stacked / seconds:.2f}x stacked"
    print(f"{way:<46} {seconds:7.1f} s   {ratios}; digests {'equal' if same else 'DIFFER'} (to {how} alone)", flush=True)


def _file(place: Path, how: str, asked: argparse.Namespace) -> Path:
    path = place / f"{how}.toml"
    settings = {"seeds": asked.seeds, "cohort": asked.cohort, "rounds": asked.rounds, "every": asked.evaluate_every}
    path.write_text(STUDY.format(execute=how, **settings))
    return path


def _one_by_one(file: Path, out: Path, *, pages: bool) -> None:
    out.mkdir()
    cells = expand_study(load_study(file))
    words: list[str] = []
    for cell, place in zip(cells, run_folders(out, cells), strict=True):
        spec = out / f"{place.name}.toml"
        spec.write_text(cell.spec.toml())
        words += [str(spec), str(place)]
    _run("-c", ONE_BY_ONE, "pages" if pages else "none", *words)


def _study(file: Path, out: Path, workers: str, alike: Path | None = None, *, pages: bool) -> None:
    """A study; with the form of stacks that the runs in the folder `alike` computed in, so that bits can be compared."""
    if alike is not None:
        cells = expand_study(load_study(file))
        kept = stored_conditions(run_folders(alike, cells)[0])
        out.mkdir()
        (out / FORMS_FILE).write_text(json.dumps({shape_of(cells[0].spec): [kept.form, kept.form_threads]}))
    if pages:
        _run("-m", "fedfleet.app.cli.main", "study", str(file), "--out", str(out), "--workers", workers, "--json")
    else:
        _run("-c", WITHOUT_PAGES, str(file), str(out), workers)


def _run(*words: str) -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, env=env)


def _digests(file: Path, out: Path) -> list[str]:
    cells = expand_study(load_study(file))
    return [read_finished_run(place).metrics["digest"] for place in run_folders(out, cells)]


if __name__ == "__main__":
    main()
