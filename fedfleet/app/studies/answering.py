"""A study from its file to its tables: expand, try, run what is missing, analyse, write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.app.studies.file import Study
from fedfleet.app.studies.keeping import Ran


@dataclass(frozen=True, slots=True)
class Studied:
    """A study that has been carried out.

    `rows` has one row per arm (see `analysing.rows_of`), `analyses` one answer per [[analysis]], `cells` one per run in the order
    of the file. `cached` counts the runs that were finished before. `verdict` is the conclusion in one sentence.
    """

    study: Study
    cells: list[Ran]
    rows: list[dict[str, Any]]
    analyses: list[dict[str, Any]]
    out: Path
    cached: int = 0
    verdict: str = ""
    page: Path | None = None

    def answer(self) -> dict[str, Any]:
        """What `fedfleet study --json` answers."""
        return {
            "runs": len(self.cells),
            "cached": self.cached,
            "failed": sum(not ran.good for ran in self.cells),
            "rows": self.rows,
            "analyses": self.analyses,
            "verdict": self.verdict,
            "out": str(self.out),
            "page": None if self.page is None else str(self.page),
        }


def study(
    file: str | Path | dict[str, Any],
    *,
    scale: str | None = None,
    out: Path | None = None,
    workers: int | None = None,
    quiet: bool = True,
) -> Studied:
    """Carry out a study."""
    raise NotImplementedError
