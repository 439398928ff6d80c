"""Two thousand random mutations of specs and command lines: each runs, or is refused in one sentence."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutations.commands import make_case
from tests.mutations.running import called_apart, complaint, finished_run

CASES, PART, SEED = 2000, 250, 6
APART = 40  # of further cases, called as processes of their own
ROOT = Path(__file__).parents[2]


def answers(root, first, last):
    """What so many cases answered, in a process that is started anew where one of them ends it."""
    results = root / f"results-{first}.jsonl"
    number = first
    while number < last:
        words = [
            sys.executable,
            "-W",
            "ignore::DeprecationWarning",
            "-m",
            "tests.mutations.running",
            SEED,
            number,
            last,
            root,
            results,
        ]
        done = subprocess.run([str(w) for w in words], cwd=ROOT, capture_output=True, text=True, timeout=3600)
        lines = [json.loads(line) for line in results.read_text().splitlines()]
        if "begun" not in lines[-1]:
            break
        ended = {**lines[-1], "number": lines[-1]["begun"], "code": done.returncode, "seconds": 0.0, "peak_mb": 0}
        ended["complaint"] = f"it ended the process with {done.returncode}: {done.stderr[-3000:]}"
        with results.open("a") as file:
            file.write(json.dumps(ended) + "\n")
        number = lines[-1]["begun"] + 1
    return [result for line in results.read_text().splitlines() if "code" in (result := json.loads(line))]


@pytest.mark.parametrize("first", range(0, CASES, PART))
def test_every_mutation_runs_or_is_refused_in_one_sentence(first, tmp_path):
    finished_run(tmp_path)
    result = answers(tmp_path, first, first + PART)
    codes = Counter(one["code"] for one in result)
    wrong = [f"{one['words']}: {one['complaint']}" for one in result if one.get("complaint")]
    assert not wrong, f"{len(wrong)} of {len(result)} ({dict(codes)}):\n" + "\n\n".join(wrong[:10])
    assert len(result) == PART
    assert max(one["peak_mb"] for one in result) < 6000


def test_the_same_holds_for_processes(tmp_path):
    finished = finished_run(tmp_path)
    for number in range(CASES, CASES + APART):
        case, folder = make_case(SEED, number, tmp_path, finished)
        answer = called_apart(case, folder)
        assert complaint(answer, folder) is None, (case.words, complaint(answer, folder))
