"""What a dashboard costs with many runs: first reading, looking again, grouping, and the list as a page.

`python -m benchmarks.run_list FOLDER`, where FOLDER holds runs; `python -m tests.app.dashboard.many_runs FOLDER` makes 200.
"""

import argparse
import time
from pathlib import Path

from fedfleet.app.dashboard.run_groups import RunGrouper
from fedfleet.app.dashboard.run_list import ListState, run_rows
from fedfleet.app.dashboard.run_watcher import RunWatcher


def milliseconds(job, repeat=1):
    """CPU milliseconds of a job, and what it gave last."""
    start = time.process_time()
    for _ in range(repeat - 1):
        job()
    result = job()
    return 1000 * (time.process_time() - start) / repeat, result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    watcher = RunWatcher(parser.parse_args().folder)
    grouper = RunGrouper(watcher.root)
    first, runs = milliseconds(watcher.refresh)
    grouper.group(runs)  # brings torch
    again, runs = milliseconds(watcher.refresh, 20)
    grouped, groups = milliseconds(lambda: grouper.group(dict(runs)), 20)
    print(f"{len(runs)} runs in {len(groups.groups)} groups, CPU milliseconds")
    print(f"first reading {first:.0f}; looking again {again:.1f}; grouping {grouped:.1f}")
    states = {"all shut": ListState(), "all open": ListState(open=list(groups.groups)), "one by one": ListState(is_flat=True)}
    for name, state in states.items():
        took, rows = milliseconds(lambda state=state: run_rows(runs, groups, state), 20)
        print(f"list, {name}: {took:.1f}, {len(rows.encode()) / 1000:.1f} kB")


if __name__ == "__main__":
    main()
