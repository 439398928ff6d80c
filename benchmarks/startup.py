"""How long people wait before anything happens: importing, the light verbs, a bad spec.

    python -m benchmarks.startup

The best of some tries, each in a fresh process, against the bare interpreter in the same run.
"""

from __future__ import annotations

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


if __name__ == "__main__":
    main()
