"""Runs in groups: by the study, search, demo or folder in which they lie, and inside by arm, by what their specs differ in."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from fedfleet.app.dashboard.run_watcher import RUNNING, RunSummary, printable
from fedfleet.app.studies.grid.study_file import folder_words
from fedfleet.measure.score_info import ScoreInfo

STUDY, SEARCH, DEMO, FOLDER = "study", "search", "demo", "folder"
# Of each kind of group: the folder in its own in which it keeps its runs, the files by which it is known, and its page.
_INSIDE = {STUDY: "runs", DEMO: "runs", SEARCH: "trials"}
_MARKERS = {STUDY: ("study.toml", "study.json"), DEMO: (".fedfleet-demo",), SEARCH: ("tune.db", "tune.json")}
_PAGES = {STUDY: "report.html", SEARCH: "report.html", DEMO: "index.html", FOLDER: "comparison.html"}
_WORDY = 48  # letters of an arm's own name beyond which what differs in its spec says it shorter
_CONTENT_KEY = "task.content"  # of a person's own model: its first weights, and so this name, differ from seed to seed
_PARTS = re.compile(r", (?![^(\[{]*[)\]}])")  # commas that lie in no brackets
_KEYED = re.compile(r"([\w.]+)=[^\W\d].*")  # a key with a word for its value
_RUN_FOLDER = re.compile(r"(.+)-s[\d-]+-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class RunArm:
    """Runs of a group that repeat each other but for their seeds; `name` says only what is not alike in the whole group."""

    name: str
    runs: tuple[RunSummary, ...]

    @property
    def accuracy(self) -> float | None:
        """The mean over the runs that have an evaluation."""
        known = [run.accuracy for run in self.runs if run.accuracy is not None]
        return fmean(known) if known else None

    @property
    def score(self) -> ScoreInfo:
        """What the score of its runs is called."""
        return next((run.score for run in self.runs if run.scores), ScoreInfo())

    @property
    def time(self) -> float:
        """The mean length of its runs."""
        return fmean(run.time for run in self.runs)


@dataclass(frozen=True, slots=True)
class RunGroup:
    """A study, search, demo or folder with its runs. `key` is its path under the folder that is watched."""

    key: str
    name: str
    kind: str
    folder: Path
    arms: tuple[RunArm, ...]

    @property
    def runs(self) -> list[RunSummary]:
        """All runs, arm by arm."""
        return [run for arm in self.arms for run in arm.runs]

    @property
    def page(self) -> str:
        """The file with its page; "" if there is none yet."""
        return _PAGES[self.kind] if (self.folder / _PAGES[self.kind]).is_file() else ""

    @property
    def best(self) -> RunArm | None:
        """The arm with the highest mean accuracy."""
        return max((arm for arm in self.arms if arm.accuracy is not None), key=lambda arm: arm.accuracy or 0.0, default=None)

    @property
    def is_running(self) -> bool:
        """Does one of its runs go on?"""
        return any(run.status == RUNNING for run in self.runs)

    @property
    def changed_at(self) -> float:
        """When one of its runs last wrote."""
        return max(run.changed_at for run in self.runs)


@dataclass(frozen=True, slots=True)
class GroupedRuns:
    """All runs: those of groups, and those that belong to none."""

    groups: Mapping[str, RunGroup] = field(default_factory=dict[str, RunGroup])
    singles: Sequence[RunSummary] = ()
    arms: Mapping[str, RunArm] = field(default_factory=dict[str, RunArm])  # the arm of a run, by the run's name
    homes: Mapping[str, RunGroup] = field(default_factory=dict[str, RunGroup])  # and its group

    def title(self, run: RunSummary) -> str:
        """A run by its group, arm and seed; one that is in no study by its name."""
        home = self.homes.get(run.name)
        if home is None or home.kind == FOLDER:
            return run.name
        arm = self.arms[run.name]
        return f"{home.name}: {arm.name}{f', seed {seed_text(run)}' if len(arm.runs) > 1 else ''}"

    def label(self, run: RunSummary) -> str:
        """What the arm of a run is called, for those who look for it."""
        arm = self.arms.get(run.name)
        return "" if arm is None else arm.name


class RunGrouper:
    """Groups runs again only when there is something new: what an arm is called depends on all runs of its group."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._seen: Mapping[str, RunSummary] | None = None
        self._grouped = GroupedRuns()
        self._layouts: dict[str, tuple[Sequence[Mapping[str, str]], list[tuple[str, list[int]]]]] = {}

    def group(self, summaries: Mapping[str, RunSummary]) -> GroupedRuns:
        """These runs in their groups."""
        if summaries is self._seen:
            return self._grouped
        places: dict[Path, tuple[str, Path] | None] = {}
        members: dict[tuple[str, Path], list[RunSummary]] = {}
        singles: list[RunSummary] = []
        for run in summaries.values():
            parent = run.folder.parent
            if parent not in places:
                places[parent] = _home(parent, self.root) if run.folder != self.root else None
            home = places[parent]
            if home is None:
                singles.append(run)
            else:
                members.setdefault(home, []).append(run)
        groups = [self._group(kind, folder, runs) for (kind, folder), runs in members.items()]
        by_run = {run.name: arm for group in groups for arm in group.arms for run in arm.runs}
        homes = {run.name: group for group in groups for run in group.runs}
        self._seen, self._grouped = summaries, GroupedRuns({group.key: group for group in groups}, singles, by_run, homes)
        self._layouts = {key: layout for key, layout in self._layouts.items() if key in self._grouped.groups}
        return self._grouped

    def _group(self, kind: str, folder: Path, runs: list[RunSummary]) -> RunGroup:
        key = printable(folder.relative_to(self.root).as_posix())
        name = printable(folder.absolute().name) if key == "." else key
        runs = sorted(runs, key=lambda run: natural_order(run.name))
        values = [run.spec_values for run in runs]
        layout = self._layouts.get(key)
        if layout is None or len(layout[0]) != len(values) or any(a is not b for a, b in zip(layout[0], values, strict=True)):
            layout = self._layouts[key] = (values, _arms(kind, folder, runs))
        return RunGroup(key, name, kind, folder, tuple(RunArm(arm, tuple(runs[i] for i in at)) for arm, at in layout[1]))


def _home(parent: Path, root: Path) -> tuple[str, Path] | None:
    """The kind and the folder of the group of the runs in this folder; None: they belong to none."""
    for inner in (parent, parent.parent):  # a trial of several seeds has a folder for each
        above = inner.parent
        for kind, markers in _MARKERS.items():
            inside = inner.name == _INSIDE[kind] and above.is_relative_to(root) and inner != root
            if inside and (inner is parent or kind == SEARCH) and any((above / marker).is_file() for marker in markers):
                return kind, above
    return None if parent == root else (FOLDER, parent)


def _arms(kind: str, folder: Path, runs: Sequence[RunSummary]) -> list[tuple[str, list[int]]]:
    """The arms of a group: a name, and which runs they are. In a plain folder, and where a spec cannot be read, each run is one."""
    alone = [(printable(run.folder.name), [i]) for i, run in enumerate(runs) if kind == FOLDER or not run.spec_values]
    readable = [i for i, run in enumerate(runs) if run.spec_values]
    if kind == FOLDER or not readable:
        return alone
    from fedfleet.app.studies.compare.arms import arm_names, is_seed_key  # brings torch, which takes a second

    keys = dict.fromkeys(key for i in readable for key in runs[i].spec_values)
    kept = [key for key in keys if not (is_seed_key(key) or key.startswith("run.") or key == _CONTENT_KEY)]
    columns = {key: [runs[i].spec_values.get(key) for i in readable] for key in kept}
    differing = {key: values for key, values in columns.items() if any(value != values[0] for value in values)}
    by_values: dict[tuple[str | None, ...], list[int]] = {}
    for at, i in enumerate(readable):
        by_values.setdefault(tuple(values[at] for values in differing.values()), []).append(i)
    names = arm_names([dict(zip(differing, values, strict=True)) for values in by_values])
    arms = list(zip(names, by_values.values(), strict=True))
    own = _own_names(folder, [runs[members[0]] for members in by_values.values()]) if kind == STUDY else []
    if own and max(len(name) for _, name in own) <= max(_WORDY, *map(len, names)):
        arms = [(name, members) for (_, name), (_, members) in sorted(zip(own, arms, strict=True))]
    elif kind == STUDY:
        arms.sort(key=lambda arm: natural_order(arm[0]))
    return [*arms, *alone]


def _own_names(folder: Path, firsts: Sequence[RunSummary]) -> list[tuple[int, str]]:
    """What the study itself calls the arms of these runs, without what all share, each with its place in the study's file.

    [] where the folders do not say which is which.
    """
    try:
        table = tomllib.loads((folder / "study.toml").read_text(encoding="utf-8"))
        known = [str(arm["name"]) for arm in table["runs"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    words = [match[1] if (match := _RUN_FOLDER.fullmatch(run.folder.name)) else "" for run in firsts]
    found = [[name for name in known if folder_words(name) == word] for word in words]
    names = [candidates[0] for candidates in found if len(candidates) == 1]
    return list(zip(map(known.index, names), drop_shared_parts(names), strict=True)) if len({*names}) == len(firsts) else []


def seed_text(run: RunSummary) -> str:
    """The seed of a run as its spec has it, with those of fleet, data or training where they have their own."""
    own = [f"{key.removeprefix('seeds.')} {value}" for key, value in run.spec_values.items() if key.startswith("seeds.")]
    return run.spec_values.get("seed", "0") + (f" ({', '.join(own)})" if own else "")


def drop_shared_parts(names: Sequence[str]) -> list[str]:
    """Names without the parts between commas that all of them have, and without keys that all have at the same place.

    >>> drop_shared_parts(["digits, severe, oort", "digits, mild, oort"]), drop_shared_parts(["digits"])
    (['severe', 'mild'], ['digits'])
    >>> drop_shared_parts(["choose=oort", "choose=fair"]), drop_shared_parts(["pace.cohort=5", "pace.cohort=10"])
    (['oort', 'fair'], ['pace.cohort=5', 'pace.cohort=10'])
    """
    parts = [_PARTS.split(name) for name in names]
    shared = set(parts[0]).intersection(*parts[1:]) if len(names) > 1 else set[str]()
    parts = [[part for part in own if part not in shared] or own for own in parts]
    if len(names) > 1 and len({len(own) for own in parts}) == 1:
        for at in range(len(parts[0])):
            keyed = [_KEYED.fullmatch(own[at]) for own in parts]
            if len({match and match[1] for match in keyed}) == 1 and keyed[0]:
                parts = [[*own[:at], own[at].partition("=")[2], *own[at + 1 :]] for own in parts]
    return [", ".join(own) for own in parts]


def natural_order(name: str) -> list[tuple[float, str]]:
    """A key by which trial 10 comes after trial 9, and 0.3 after 0.03.

    >>> sorted(["trials/10", "trials/9"], key=natural_order), sorted(["lr 0.3", "lr 0.03"], key=natural_order)
    (['trials/9', 'trials/10'], ['lr 0.03', 'lr 0.3'])
    """
    pieces = re.split(r"(\d{1,18}(?:\.\d{1,18})?)", name.lower())
    return [(float(piece), "") if i % 2 else (-1.0, piece) for i, piece in enumerate(pieces)]


@dataclass(frozen=True, slots=True)
class Selection:
    """What is ticked to be compared: runs by name; arms by the name of one of their runs; groups by key, perhaps with the words of
    the filter under which they were ticked, after two slashes."""

    runs: Collection[str] = ()
    arms: Collection[str] = ()
    groups: Collection[str] = ()

    def runs_of(
        self, grouped: GroupedRuns, runs: Mapping[str, RunSummary], find: Callable[[str], Collection[str]]
    ) -> list[RunSummary]:
        """The runs that are selected, each once; `find` gives the names of the runs that the words of a filter match."""
        names: dict[str, None] = {}
        for token in self.groups:
            key, _, words = token.partition("//")
            group, found = grouped.groups.get(key), set(find(words)) if words else None
            names |= {run.name: None for run in (group.runs if group else ()) if found is None or run.name in found}
        for name in self.arms:
            arm = grouped.arms.get(name)
            names |= {run.name: None for run in (arm.runs if arm else ())}
        names |= dict.fromkeys(self.runs)
        return [runs[name] for name in names if name in runs]
