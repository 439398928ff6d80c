"""Judge the built-in base by what its model does, and not by the draw that is shipped: bands over draws that nobody chose.

    python -m benchmarks.builtin_bands               100 draws (about 20 minutes), writes benchmarks/builtin_bands.json
    python -m benchmarks.builtin_bands --show        the table of docs/explanation/builtin-base.md from that file

For every comparison with the real traces: the real figure, the band from the 5th to the 95th percentile of the draws, whether
the real figure lies inside it, and where among the draws the shipped one stands. Reads $FEDFLEET_DATA (default ../shared/data).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.builtin_likeness import Goal, Row, device_goodness, real_goal, state_goodness
from fedfleet.world.bases import builtin

FOUND = Path(__file__).with_name("builtin_bands.json")
DRAWS = range(1000, 1100)  # neither the shipped seeds nor those of the fit
PERCENTILES = (5, 50, 95)


def compared(goal: Goal, device_seed: int, state_seed: int) -> list[Row]:
    """Every comparison of one draw of devices and of states with the real ones."""
    devices = builtin.draw_devices(builtin.load_parameters(), builtin.DEVICES, device_seed)
    states = builtin.draw_states(builtin.load_parameters(), builtin.STATES, state_seed)
    return [*device_goodness(goal, devices), *state_goodness(goal, devices, states)]


def judged(draws: list[list[Row]], shipped: list[Row]) -> list[dict[str, Any]]:
    """For each comparison: the real figure, the band of the draws, the first draw, and the shipped one with its place."""
    found = []
    for row, *same in zip(shipped, *draws, strict=True):
        ours = np.array([one.ours for one in same])
        low, middle, high = np.percentile(ours, PERCENTILES).tolist()
        place = float(np.mean(ours < row.ours) + np.mean(ours == row.ours) / 2)
        figures = {
            "real": row.real,
            "low": low,
            "median": middle,
            "high": high,
            "first": same[0].ours,
            "shipped": row.ours,
        }
        short = {name: float(f"{value:.6g}") for name, value in figures.items()}
        found.append({"what": row.what, **short, "inside": low <= row.real <= high, "place": round(place, 3)})
    return found


def tables(rows: list[dict[str, Any]]) -> str:
    """The tables of the documentation: what has no cells of its own, then DevMC by DPGMM's cells, then the rest by DPCSM's."""
    metrics = [["DevMC-R", "DevMC-T"], ["StatMC-R", "InterMC-R", "StatMC-T"]]
    split = [(row, *row["what"].partition(" ")[::2]) for row in rows]
    alone = [row for row, first, _ in split if not any(first in names for names in metrics)]
    parts = ["| | |\n| --- | --- |", *(f"| {row['what']} | {cell(row)} |" for row in alone)]
    for names in metrics:
        found: dict[str, dict[str, str]] = {}
        for row, first, where in split:
            if first in names:
                found.setdefault(where, {})[first] = cell(row)
        parts.append(f"\n| | {' | '.join(names)} |\n|{' --- |' * (len(names) + 1)}")
        parts += [f"| {where} | {' | '.join(cells.get(n, '') for n in names)} |" for where, cells in found.items()]
    return "\n".join(parts)


def cell(row: dict[str, Any]) -> str:
    """real in low .. high, and where the shipped draw stands among the others."""
    real, low, high = (f"{row[k]:,.4g}" if row["real"] >= 1 else f"{row[k]:.4f}" for k in ("real", "low", "high"))
    said = f"{real} in {low} .. {high}" if row["inside"] else f"**{real} not in** {low} .. {high}"
    return f"{said}; {100 * row['place']:.0f} %"


def found_before() -> list[dict[str, Any]]:
    """What the last whole judgement found."""
    return json.loads(FOUND.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=len(DRAWS), metavar="N", help="how many draws")
    parser.add_argument("--show", action="store_true", help="only show what was found before")
    asked = parser.parse_args()
    if not asked.show:
        goal, own = real_goal(), builtin.load_parameters()
        shipped = compared(goal, own["devices"]["seed"], own["states"]["seed"])
        draws = []
        for seed in range(DRAWS.start, DRAWS.start + asked.draws):
            draws.append(compared(goal, seed, seed))
            print(f"{len(draws)} of {asked.draws} draws", end="\r", file=sys.stderr, flush=True)
        rows = judged(draws, shipped)
        FOUND.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    rows = found_before()
    print(tables(rows))
    print(f"\ninside: {sum(r['inside'] for r in rows)} of {len(rows)}")


if __name__ == "__main__":
    main()
