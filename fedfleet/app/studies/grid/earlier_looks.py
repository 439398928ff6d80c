"""Which numbers of seeds a study was evaluated with before: looking again after more seeds must be surer than looking once."""

from __future__ import annotations

import json
from pathlib import Path

from fedfleet.app.studies.grid.study_file import Study
from fedfleet.store.files import write_atomically

LOOKS = "looks.json"  # in the folder of a study


def note_look(folder: Path, study: Study) -> int:
    """The how manieth evaluation of these arms this is, counted from 1; the folder keeps it. The same seeds again are the same
    look, and one seed is none, since nothing can be tested with it."""
    arms, count = [arm.name for arm in study.arms], len(study.seeds) * len(study.draws)
    looks = _earlier_looks(folder, arms)
    if count > 1 and count not in looks:
        looks.append(count)
        write_atomically(folder / LOOKS, json.dumps({"arms": arms, "seeds": looks}).encode())
    return looks.index(count) + 1 if count in looks else 1


def _earlier_looks(folder: Path, arms: list[str]) -> list[int]:
    """The numbers of seeds of earlier evaluations; none if they were of other arms."""
    try:
        kept = json.loads((folder / LOOKS).read_text(encoding="utf-8"))
        return [int(count) for count in kept["seeds"]] if kept["arms"] == arms else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
