"""How long people wait before anything happens: importing, the light verbs, a bad spec, and the first run in a new environment.

    python -m benchmarks.startup

The best of some tries, each in a fresh process, against the bare interpreter in the same run. A first run is one without any
compiled file of Python or numba.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = str(Path(sys.executable).with_name("fedfleet"))


def best_of(words: list[str], tries: int = 7) -> float:
    """Seconds of the fastest try."""
    found = []
    for _ in range(tries):
        start = time.perf_counter()
        subprocess.run(words, capture_output=True, check=False)
        found.append(time.perf_counter() - start)
    return min(found)


def main() -> None:
    bare = best_of([sys.executable, "-c", "pass"])
    imported = best_of([sys.executable, "-c", "import fedfleet"])
    print(f"bare interpreter          {bare:.3f} s")
    print(f"import fedfleet           {imported - bare:.3f} s more")
    with tempfile.TemporaryDirectory() as folder:
        bad = Path(folder) / "bad.toml"
        bad.write_text("[pace]\ncohrt = 3\n")
        for words in (["--help"], ["version"], ["list", "algorithms"], ["list", "tasks"], ["run", str(bad)]):
            said = " ".join(words).replace(str(bad), "BAD_SPEC")
            print(f"fedfleet {said:<16} {best_of([COMMAND, *words]):.3f} s")
        for number, what in enumerate(("a first run", "the same again", "and again")):
            wall, processor = time_run(Path(folder), number)
            print(f"{what:<25} {wall:.1f} s, {processor:.1f} s of processor time")


def time_run(folder: Path, number: int) -> tuple[float, float]:
    """Real and processor seconds of examples/first.toml; compiled files of Python and numba lie below this folder."""
    caches = {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "NUMBA_CACHE_DIR": str(folder / "numba")}
    words = [COMMAND, "run", "examples/first.toml", "--out", str(folder / f"run-{number}")]
    start, before = time.perf_counter(), os.times()
    subprocess.run(words, capture_output=True, check=True, env={**os.environ, **caches})
    after = os.times()
    processor = after.children_user - before.children_user + after.children_system - before.children_system
    return time.perf_counter() - start, processor


if __name__ == "__main__":
    main()
