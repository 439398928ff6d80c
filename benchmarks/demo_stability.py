"""Does the demo say the same with other seeds? Its studies again with five other sets of seeds, and its claims side by side.

    python -m benchmarks.demo_stability FOLDER [--workers 2]

The first column is the demo as it ships; the others add 100, 200, .. to every seed. A claim of a rerun agrees if it is the same as
in the demo. The folder keeps the runs: the same command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fedfleet.app.demo import demo_findings, demo_study
from fedfleet.app.demo.demo_study import ASYNCHRONOUS, FLEETS, USERS, WITH_DEADLINE, RunsByWay, run_demo
from fedfleet.app.studies.compare.records import Recommendation
from fedfleet.app.studies.grid.study_jobs import WorkerSettings

RERUNS = 5


def claims_of(runs: RunsByWay) -> dict[str, str]:
    """What the demo says, as claims that a rerun can repeat or not."""
    result = dict[str, str]()
    for fleet in (*FLEETS, USERS):
        found = demo_findings.recommendation(runs, fleet)
        result[f"{fleet}: use"] = str(found.arm)
        result[f"{fleet}: how sure"] = certainty(found)
    for fleet in list(FLEETS)[1:]:
        dropped, kept = (demo_findings.never_took_part(runs[fleet, way]) for way in (WITH_DEADLINE, ASYNCHRONOUS))
        result[f"{fleet}: who leaves out more clients"] = WITH_DEADLINE if dropped > kept else ASYNCHRONOUS
    return result


def certainty(found: Recommendation) -> str:
    if not found.decided:
        return "not decided"
    return "significantly better" if found.equal_within is None else "equal, and costs less"


def figures_of(runs: RunsByWay, fleet: str) -> str:
    """The difference to the nearest other way, with its interval."""
    found = demo_findings.recommendation(runs, fleet)
    if found.difference is None or found.low is None or found.high is None:
        return "-"
    return f"{100 * found.difference:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    columns = list[tuple[dict[str, str], dict[str, str]]]()
    for number in range(RERUNS + 1):
        out = asked.folder / f"seeds-{100 * number}"
        out.mkdir(parents=True, exist_ok=True)
        runs = run_demo(out, WorkerSettings(asked.workers), quiet=True, shift=100 * number)
        columns.append((claims_of(runs), {fleet: figures_of(runs, fleet) for fleet in (*FLEETS, USERS)}))
        print(f"{out}: {columns[-1]}", flush=True)
    demo, reruns = columns[0], columns[1:]
    print("| claim | demo | " + " | ".join(f"+{100 * (n + 1)}" for n in range(RERUNS)) + " |")
    print("| --- " * (RERUNS + 2) + "|")
    for claim, said in demo[0].items():
        print(f"| {claim} | {said} | " + " | ".join("same" if one[0][claim] == said else one[0][claim] for one in reruns) + " |")
    for fleet, figures in demo[1].items():
        unit = "% of the time saved" if fleet == USERS else "points ahead"
        print(f"| {fleet}: {unit} | {figures} | " + " | ".join(one[1][fleet] for one in reruns) + " |")
    same = sum(one[0][claim] == said for one in reruns for claim, said in demo[0].items())
    seeds = len(demo_study.STUDY.seeds), len(demo_study.USER_STUDY.seeds)
    print(
        f"{same} of {len(reruns) * len(demo[0])} claims agree ({seeds[0]} seeds a fleet, {seeds[1]} of people with several devices)"
    )


if __name__ == "__main__":
    main()
