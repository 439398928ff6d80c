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

from fedfleet.app.spec.spec_file import read_table
from fedfleet.app.spec.spec_record import digest_of
from fedfleet.core.errors import BadInput, FedFleetError, nearest_file
from fedfleet.core.json_text import parse_json
from fedfleet.measure.run_progress import Evaluation, Progress
from fedfleet.measure.run_record import RunRecord
from fedfleet.measure.score_info import ScoreInfo, score_of_measures
from fedfleet.store.journal import rows_from
from fedfleet.store.journal_checks import JournalCheck, check_events
from fedfleet.store.journal_rows import Kind, Values, decode_with_numbers
from fedfleet.store.lock import LOCK, Holder, holder_of
from fedfleet.store.seals import SEAL

RUNNING, FINISHED, PRUNED, STOPPED, DAMAGED = "running", "finished", "pruned", "stopped", "damaged"
_PRUNED_FILE = "pruned.json"  # in the folder of a trial that its search stopped early
_SUMMARY_KINDS = (Kind.BEGAN, Kind.EVALUATED, Kind.FAILED, Kind.COMMITTED, Kind.ENDED)
_CHUNK = 20_000  # rows read at a time, in some 50 ms
_MAX_DEPTH, _MAX_FOLDERS = 4, 5_000  # how deep run folders lie (SEARCH/trials/3/seed-1), and how many are looked at
_MAX_FOLLOWED = 8  # runs that are kept in memory with all that happened
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

    def is_unchanged(self) -> bool:
        """Whether the file is as it was when it was read last."""
        return _file_mark(self.path) == self.mark

    def rewind(self) -> None:
        """Read from the beginning again."""
        self.number, self.last, self.mark, self.behind = 0, None, (), False

    def read_new(self) -> tuple[bool, list[tuple[int, Values]]]:
        """The rows since last time, a chunk at most. A run that was resumed has cut its journal: then all is read anew."""
        mark = _file_mark(self.path)
        if mark == self.mark and not self.behind:
            return False, []
        rows = rows_from(self.path, max(self.number, 1), _CHUNK, self.kinds)
        restarted = self.last is None or not rows or rows[0] != (self.number, self.last)
        if self.last is None:
            pass
        elif restarted:
            self.number, self.last = 0, None
            rows = rows_from(self.path, 1, _CHUNK, self.kinds)
        else:
            rows = rows[1:]
        if rows:
            self.number, self.last = rows[-1]
        self.mark, self.behind = mark, len(rows) >= _CHUNK - 1
        return restarted, rows


def _file_mark(path: Path) -> tuple[int, ...]:
    """Changes when the journal does."""
    result: list[int] = []
    for name in (path, path.with_name(f"{path.name}-wal")):
        try:
            at = name.stat()
        except FileNotFoundError:
            result += [0, 0]
        else:
            result += [at.st_mtime_ns, at.st_size]
    return tuple(result)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run as a list shows it. `spec_values` are its spec's keys and values as text; `fault` says why it cannot be read.

    `digests` name it: what was asked, and, once it is finished, what happened.
    """

    name: str
    folder: Path
    status: str
    table: Mapping[str, Any]
    spec_values: Mapping[str, str]
    clients: int
    seed: int
    rounds: int
    commits: int
    time: float
    scores: tuple[Evaluation, ...]
    ended: str | None
    served: bool
    holder: Holder | None
    changed_at: float
    fault: str = ""
    digests: tuple[str, ...] = ()

    @property
    def accuracy(self) -> float | None:
        """That of the last model that was evaluated."""
        return self.scores[-1].accuracy if self.scores else None

    @property
    def score(self) -> ScoreInfo:
        """What its score is called, and how it is read."""
        return score_of_measures(self.scores[-1].measures if self.scores else ())

    @property
    def planned_clients(self) -> int | None:
        """How many clients its spec says that it has."""
        world = self.table.get("world", {})
        count = world.get("clients") if isinstance(world, Mapping) else None
        return count if type(count) is int else None

    @property
    def planned_end(self) -> int | None:
        """After how many rounds or commits it stops, whichever the spec names."""
        stop = self.table.get("stop", {})
        result = [stop[key] for key in ("rounds", "commits") if isinstance(stop.get(key), int)]
        return min(result) if result else None


@dataclass(slots=True)
class _SummaryState:
    """A run by the rows that a list needs."""

    tail: Tail
    progress: Progress = field(default_factory=Progress)
    finished: tuple[tuple[int, ...], RunSummary] | None = None  # a run that is sealed, and the mark of its folder by then

    fault: BadInput | None = None

    def catch_up(self) -> None:
        if self.fault is not None:
            if self.tail.is_unchanged():
                raise self.fault
            self.fault = None
            self.tail.rewind()
        try:
            more = True
            while more:
                restarted, rows = self.tail.read_new()
                if restarted:
                    self.progress = Progress()
                for _, event in decode_with_numbers((number, row) for number, row in rows if row[1] in _SUMMARY_KINDS):
                    self.progress.on(event)
                more = self.tail.behind
        except BadInput as error:
            self.fault = error
            raise


@dataclass(slots=True)
class FollowedRun:
    """A run with its record and the warnings in its journal; `version` changes when they do. `clients`: how many its spec says."""

    tail: Tail
    clients: int | None = None
    record: RunRecord = field(default_factory=RunRecord)
    check: JournalCheck = field(init=False)
    remarks: list[str] = field(default_factory=list[str])
    version: int = 0
    fault: str = ""

    def __post_init__(self) -> None:
        self.check = JournalCheck(self.clients)

    def catch_up(self) -> None:
        """Take in what is new; of a journal that cannot be read, nothing until it changes, and then all of it."""
        if self.fault:
            if self.tail.is_unchanged():
                return
            self.tail.rewind()
        try:
            more = True
            while more:
                restarted, rows = self.tail.read_new()
                if restarted:
                    self.record, self.remarks, self.check = RunRecord(), [], JournalCheck(self.clients)
                for _, event in check_events(decode_with_numbers(rows), self.check):
                    self.record.on(event)
                self.remarks += [str(row[9]) for _, row in rows if row[1] == Kind.NOTE and row[9]]
                self.version += bool(rows)
                more = self.tail.behind
            self.fault = ""
        except (FedFleetError, OSError) as error:
            self.fault = printable(str(error))


class RunWatcher:
    """All runs under a folder. Call `refresh` now and then; it may be called from several threads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.RLock()
        self._summary_states: dict[str, _SummaryState] = {}
        self._followed: dict[str, FollowedRun] = {}
        self._tables: dict[str, tuple[tuple[int, ...], Mapping[str, Any], Mapping[str, str], str]] = {}
        self.summaries: Mapping[str, RunSummary] = {}

    def refresh(self) -> Mapping[str, RunSummary]:
        """How all runs stand now, the newest first."""
        with self._lock:
            summaries = [self._summarise(name, folder) for name, folder in run_folders(self.root)]
            summaries.sort(key=lambda g: (g.status != RUNNING, -g.changed_at, g.name))
            self.summaries = {g.name: g for g in summaries}
            for removed in {*self._summary_states} - {*self.summaries}:
                del self._summary_states[removed]
                self._followed.pop(removed, None)
                self._tables.pop(removed, None)
            return self.summaries

    def inspect(self, name: str, read: Callable[[RunSummary, FollowedRun], T]) -> T | None:
        """What `read` makes of one run with its record; None if there is no such run. Nothing changes while it reads."""
        with self._lock:
            summary = self.summaries.get(name)
            return None if summary is None else read(summary, self._follow(summary))

    def _follow(self, summary: RunSummary) -> FollowedRun:
        followed = self._followed.pop(summary.name, None) or FollowedRun(Tail(summary.folder / JOURNAL), summary.planned_clients)
        self._followed[summary.name] = followed  # the one that was asked for last goes last
        while len(self._followed) > _MAX_FOLLOWED:
            del self._followed[next(iter(self._followed))]
        if (summary.folder / JOURNAL).is_file():
            followed.catch_up()
        return followed

    def _summarise(self, name: str, folder: Path) -> RunSummary:
        state = self._summary_states.get(name)
        if state is None:
            state = self._summary_states[name] = _SummaryState(Tail(folder / JOURNAL, _SUMMARY_KINDS))
        mark = _finished_mark(folder)
        if state.finished is not None and mark == state.finished[0]:
            return state.finished[1]
        fault, table, values, digest = "", {}, {}, ""
        try:
            table, values, digest = self._spec_table(name, folder)
            if (folder / JOURNAL).is_file():
                state.catch_up()
        except Exception as error:  # whatever lies in one folder, the others are shown
            fault = printable(str(error) or type(error).__name__)
        holder = holder_of(folder)
        sealed = (folder / SEAL).is_file()
        status = RUNNING if holder else DAMAGED if fault else FINISHED if sealed else STOPPED
        if status == STOPPED and (folder / _PRUNED_FILE).is_file():
            status = PRUNED
        run = state.progress
        digests = tuple(filter(None, (digest, _sealed_digest(folder) if status == FINISHED else "")))
        summary = RunSummary(
            name, folder, status, table, values, run.clients, run.seed, run.round, run.commits, run.time,
            tuple(run.evaluations), run.ended, (folder / "wire").is_dir(), holder, max(_file_mark(folder / JOURNAL)[0::2]) / 1e9,
            fault, digests,
        )  # fmt: skip
        state.finished = (mark, summary) if status == FINISHED else None
        return summary

    def _spec_table(self, name: str, folder: Path) -> tuple[Mapping[str, Any], Mapping[str, str], str]:
        """The spec of a run, its values by key and its digest; it is read again only when it changed."""
        mark, cached = _file_mark(folder / "spec.toml"), self._tables.get(name)
        if cached is None or cached[0] != mark:
            table = read_table(folder / "spec.toml")
            if not isinstance(table.get("stop", {}), Mapping):
                raise BadInput(f"{folder / 'spec.toml'} is not the spec of a run: its key stop is not a table")
            cached = self._tables[name] = (mark, table, dict(flat(table)), _spec_digest(table))
        return cached[1:]


def _spec_digest(table: Mapping[str, Any]) -> str:
    """The digest of a resolved spec, as `Spec.digest` has it."""
    try:
        return digest_of(table)
    except TypeError:  # a date, say: no run has written this spec
        return ""


def _sealed_digest(folder: Path) -> str:
    """The digest of a finished run."""
    try:
        return str(parse_json((folder / SEAL).read_bytes())["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _finished_mark(folder: Path) -> tuple[int, ...]:
    """Changes when the folder of a finished run does: when a file comes or goes, or when its spec, journal or seal is written."""
    result: list[int] = []
    for path in ("", "spec.toml", JOURNAL, SEAL):
        try:
            at = os.stat(os.path.join(folder, path))
        except OSError:
            result.append(0)
        else:
            result += [at.st_mtime_ns, at.st_size]
    return tuple(result)


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
    """The run folders at or under this one, by name; what lies inside a run's folder is not listed."""
    if is_run(root):
        return [(printable(root.absolute().name), root)]
    return [(printable(path.relative_to(root).as_posix()), path) for path in _run_folders_in(root, _MAX_DEPTH)][:_MAX_FOLDERS]


def _run_folders_in(folder: Path, depth: int) -> Iterator[Path]:
    try:
        inside = sorted(e.path for e in os.scandir(folder) if e.is_dir(follow_symlinks=False) and e.name[0] != ".")
    except OSError:
        return
    for inner in inside:
        if _has_run(inner):
            yield Path(inner)
        elif depth > 1:
            yield from _run_folders_in(Path(inner), depth - 1)


def is_run(folder: Path) -> bool:
    """Is this the folder of a run?"""
    return _has_run(os.fspath(folder))


def _has_run(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "spec.toml")) and any(
        os.path.exists(os.path.join(folder, name)) for name in (JOURNAL, LOCK, SEAL)
    )


def folder_of_runs(path: Path) -> Path:
    """The folder to watch; refused with the cure if there is none."""
    try:
        exists = path.is_dir()
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    if not exists:
        near = nearest_file(path)
        if near:
            raise BadInput(f"there is no folder {path}{near}")
        problem = "is a file; name its folder" if path.exists() else "is not there; start a run first (fedfleet run SPEC)"
        raise BadInput(f"the folder {path} {problem}, or name the folder of your runs: fedfleet dashboard FOLDER")
    return path
