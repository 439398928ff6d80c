"""Following run folders: which there are, how each stands, and what its journal says since one last looked.

Everything is read only, and every journal is closed again at once, so that runs never notice that they are watched. Folders appear,
grow, are sealed, are cut back by a resume, or are damaged: each of these is a state that can be shown.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from fedfleet.app.dashboard.run_view import Score, Seen
from fedfleet.app.spec.spec_file import read_table
from fedfleet.core.errors import BadInput, FedFleetError
from fedfleet.core.events import Evaluated, ModelCommitted, RoundFailed, RunBegan, RunEnded
from fedfleet.store.journal import rows_from
from fedfleet.store.journal_rows import Kind, Values, decode
from fedfleet.store.lock import LOCK, Holder, holder_of
from fedfleet.store.seals import SEAL

RUNNING, FINISHED, STOPPED, DAMAGED = "running", "finished", "stopped", "damaged"
_LIGHT = (Kind.BEGAN, Kind.EVALUATED, Kind.FAILED, Kind.COMMITTED, Kind.ENDED)
_CHUNK = 20_000  # rows read at a time, in some 50 ms
_DEPTH, _MOST = 3, 5_000  # how deep run folders lie, and how many are looked at
_FOLLOWED = 8  # runs that are kept in memory with all that happened
JOURNAL = "run.db"
T = TypeVar("T")


@dataclass(slots=True)
class Tail:
    """How far a journal has been read. `fresh` gives what is new, and whether what was read before no longer holds."""

    path: Path
    kinds: tuple[int, ...] = ()
    number: int = 0
    last: Values | None = None
    mark: tuple[int, ...] = ()
    behind: bool = False  # there is more than one chunk to read

    def fresh(self) -> tuple[bool, list[Values]]:
        """The rows since last time, a chunk at most. A run that was resumed has cut its journal: then all is read anew."""
        mark = _mark_of(self.path)
        if mark == self.mark and not self.behind:
            return False, []
        rows = rows_from(self.path, max(self.number, 1), _CHUNK, self.kinds)
        again = self.last is not None and (not rows or rows[0] != (self.number, self.last))
        if again:
            self.number, self.last = 0, None
            rows = rows_from(self.path, 1, _CHUNK, self.kinds)
        elif self.last is not None:
            rows = rows[1:]
        if rows:
            self.number, self.last = rows[-1]
        self.mark, self.behind = mark, len(rows) >= _CHUNK - 1
        return again, [row for _, row in rows]


def _mark_of(path: Path) -> tuple[int, ...]:
    """Changes when the journal does."""
    found: list[int] = []
    for name in (path, path.with_name(f"{path.name}-wal")):
        try:
            at = name.stat()
        except FileNotFoundError:
            found += [0, 0]
        else:
            found += [at.st_mtime_ns, at.st_size]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Glance:
    """One run as a list shows it. `words` are its spec's keys and values as text; `fault` says why it cannot be read."""

    name: str
    folder: Path
    status: str
    table: Mapping[str, Any]
    words: Mapping[str, str]
    clients: int
    seed: int
    rounds: int
    commits: int
    time: float
    scores: tuple[Score, ...]
    ended: str | None
    served: bool
    holder: Holder | None
    changed: float
    fault: str = ""

    @property
    def accuracy(self) -> float | None:
        """That of the last model that was judged."""
        return self.scores[-1].accuracy if self.scores else None

    @property
    def planned(self) -> int | None:
        """After how many rounds or commits it stops, whichever the spec names."""
        stop = self.table.get("stop", {})
        found = [stop[key] for key in ("rounds", "commits") if isinstance(stop.get(key), int)]
        return min(found) if found else None


@dataclass(slots=True)
class _Light:
    """What the rows that a list needs have told."""

    tail: Tail
    clients: int = 0
    seed: int = 0
    rounds: int = 0
    commits: int = 0
    time: float = 0.0
    ended: str | None = None
    scores: list[Score] = field(default_factory=list[Score])

    def catch_up(self) -> None:
        more = True
        while more:
            again, rows = self.tail.fresh()
            if again:
                self.rounds = self.commits = 0
                self.time, self.ended = 0.0, None
                self.scores.clear()
            for event in decode(row for row in rows if row[1] in _LIGHT):
                self.time = max(self.time, event.time)
                match event:
                    case RunBegan():
                        self.clients, self.seed = event.clients, event.seed
                    case Evaluated():
                        self.scores.append(Score(event.time, event.version, event.correct, event.total))
                    case ModelCommitted():
                        self.commits, self.rounds = self.commits + 1, event.round + 1  # events count from 0
                    case RoundFailed():
                        self.rounds = event.round + 1
                    case RunEnded():
                        self.ended = event.reason
                    case _:
                        pass
            more = self.tail.behind


@dataclass(slots=True)
class Followed:
    """A run with all that happened, and the remarks in its journal; `version` changes when they do."""

    tail: Tail
    seen: Seen = field(default_factory=Seen)
    remarks: list[str] = field(default_factory=list[str])
    version: int = 0
    fault: str = ""

    def catch_up(self) -> None:
        """Take in what is new."""
        try:
            more = True
            while more:
                again, rows = self.tail.fresh()
                if again:
                    self.seen, self.remarks = Seen(), []
                for event in decode(rows):
                    self.seen.hear(event)
                self.remarks += [row[9] for row in rows if row[1] == Kind.NOTE and row[9]]
                self.version += bool(rows)
                more = self.tail.behind
            self.fault = ""
        except (FedFleetError, OSError) as wrong:
            self.fault = printable(str(wrong))


class Watch:
    """All runs under a folder. Call `look` now and then; it may be called from several threads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.RLock()
        self._light: dict[str, _Light] = {}
        self._followed: dict[str, Followed] = {}
        self._tables: dict[str, tuple[tuple[int, ...], Mapping[str, Any], Mapping[str, str]]] = {}
        self.glances: Mapping[str, Glance] = {}

    def look(self) -> Mapping[str, Glance]:
        """How all runs stand now, the newest first."""
        with self._lock:
            found = [self._glance(name, folder) for name, folder in run_folders(self.root)]
            found.sort(key=lambda g: (g.status != RUNNING, -g.changed, g.name))
            self.glances = {g.name: g for g in found}
            for gone in {*self._light} - {*self.glances}:
                del self._light[gone]
                self._followed.pop(gone, None)
                self._tables.pop(gone, None)
            return self.glances

    def view(self, name: str, make: Callable[[Glance, Followed], T]) -> T | None:
        """What `make` makes of one run with all that happened so far; None if there is no such run. Nothing changes meanwhile."""
        with self._lock:
            glance = self.glances.get(name)
            return None if glance is None else make(glance, self._caught_up(glance))

    def _caught_up(self, glance: Glance) -> Followed:
        found = self._followed.pop(glance.name, None) or Followed(Tail(glance.folder / JOURNAL))
        self._followed[glance.name] = found  # the one that was asked for last goes last
        while len(self._followed) > _FOLLOWED:
            del self._followed[next(iter(self._followed))]
        if (glance.folder / JOURNAL).is_file():
            found.catch_up()
        return found

    def _glance(self, name: str, folder: Path) -> Glance:
        light = self._light.setdefault(name, _Light(Tail(folder / JOURNAL, _LIGHT)))
        fault, table, words = "", {}, {}
        try:
            table, words = self._table(name, folder)
            if (folder / JOURNAL).is_file():
                light.catch_up()
        except Exception as wrong:  # whatever lies in one folder, the others are shown
            fault = printable(str(wrong) or type(wrong).__name__)
        holder = holder_of(folder)
        sealed = (folder / SEAL).is_file()
        status = RUNNING if holder else DAMAGED if fault else FINISHED if sealed else STOPPED
        return Glance(
            name, folder, status, table, words, light.clients, light.seed, light.rounds, light.commits, light.time,
            tuple(light.scores), light.ended, (folder / "wire").is_dir(), holder, max(_mark_of(folder / JOURNAL)[0::2]) / 1e9,
            fault,
        )  # fmt: skip

    def _table(self, name: str, folder: Path) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """The spec of a run; it is read again only when it changed."""
        mark, kept = _mark_of(folder / "spec.toml"), self._tables.get(name)
        if kept is None or kept[0] != mark:
            table = read_table(folder / "spec.toml")
            if not isinstance(table.get("stop", {}), Mapping):
                raise BadInput(f"{folder / 'spec.toml'} is not the spec of a run: its stop is no table")
            kept = self._tables[name] = (mark, table, dict(flat(table)))
        return kept[1], kept[2]


def flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """The values of a nested table as text, by dotted key.

    >>> dict(flat({"pace": {"use": "deadline", "seconds": 120.0}}))
    {'pace.use': 'deadline', 'pace.seconds': '120'}
    """
    for key, value in table.items():
        at = f"{before}{key}"
        if isinstance(value, Mapping):
            yield from flat(value, f"{at}.")
        else:
            yield at, f"{value:g}" if isinstance(value, float) else str(value)


def printable(text: str) -> str:
    """Text that can be sent: the name of a folder need not be UTF-8.

    >>> print(printable("caf\\udce9"))
    caf\\udce9
    """
    return text.encode(errors="backslashreplace").decode()


def run_folders(root: Path) -> list[tuple[str, Path]]:
    """The run folders at or under this one, by name; what is inside a run's folder is its own affair."""
    if is_run(root):
        return [(printable(root.absolute().name), root)]
    return [(printable(path.relative_to(root).as_posix()), path) for path in _under(root, _DEPTH)][:_MOST]


def _under(folder: Path, depth: int) -> Iterator[Path]:
    try:
        inside = sorted(e.path for e in os.scandir(folder) if e.is_dir(follow_symlinks=False) and e.name[0] != ".")
    except OSError:
        return
    for path in map(Path, inside):
        if is_run(path):
            yield path
        elif depth > 1:
            yield from _under(path, depth - 1)


def is_run(folder: Path) -> bool:
    try:
        return (folder / "spec.toml").is_file() and any((folder / n).exists() for n in (JOURNAL, LOCK, SEAL))
    except OSError:
        return False


def folder_of_runs(path: Path) -> Path:
    """The folder to watch; refused with the cure if there is none."""
    try:
        there = path.is_dir()
    except OSError as wrong:
        raise BadInput(f"cannot look into {path}: {wrong.strerror}") from None
    if not there:
        what = "is a file; name its folder" if path.exists() else "is not there; start a run first (fedfleet run SPEC)"
        raise BadInput(f"the folder {path} {what}, or name the folder of your runs: fedfleet dashboard FOLDER")
    return path
