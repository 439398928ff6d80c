"""A raw table as people have it: activity.csv of 24 people, with holes, text labels and columns of unlike size; and one file for
each of three devices. `python examples/own_data/make_activity.py [FOLDER]`."""

import csv
import random
import sys
from pathlib import Path

folder = Path(sys.argv[1] if sys.argv[1:] else ".")
draw = random.Random(7)
# Mean acceleration in g, heart rate and steps an hour of each activity.
ACTIVITIES = {"walk": (1.4, 95.0, 5200.0), "run": (3.6, 145.0, 9600.0), "sit": (0.2, 68.0, 90.0), "stairs": (2.0, 120.0, 3900.0)}
NAMES = ["user", "acceleration", "heart_rate", "steps", "device", "activity"]


def samples(person: str, n: int) -> list[list[str]]:
    """What this person did; everybody moves a little differently, and some sensors fail."""
    pace, device = draw.gauss(1.0, 0.15), draw.choice(["phone", "watch"])
    rows = []
    for _ in range(n):
        activity = draw.choice(list(ACTIVITIES))
        means = [mean * pace for mean in ACTIVITIES[activity]]
        values = [f"{draw.gauss(mean, 0.25 * mean + 0.1):.3f}" for mean in means]
        values[1] = "?" if draw.random() < 0.04 else values[1]
        rows.append([person, *values, device, activity])
    return rows


def write(name: str, rows: list[list[str]]) -> None:
    """A table with its line of names."""
    with (folder / name).open("w", newline="") as file:
        csv.writer(file).writerows([NAMES, *rows])


write("activity.csv", [row for i in range(24) for row in samples(f"p{i:02}", draw.randint(40, 120))])
for i in range(3):
    write(f"device{i}.csv", samples(f"new{i}", 80))
