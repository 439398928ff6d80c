"""Limits by the kernel: a control group for each device process, under the group of this process, in version 2 or 1.

In version 1 processor and memory have trees of their own, in version 2 one tree has both. What cannot be written here is said in
one sentence, and other means take its place.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PERIOD_US = 10_000  # a short period keeps a share more truly than the kernel's default of 100,000
_LEAST_QUOTA_US = 1000  # that the kernel takes
_LARGEST_PERIOD_US = 1_000_000
_MOUNTS, _OWN = Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class GroupTree:
    """A tree of groups in which this process may make its own: its folder here, the version, and what it controls."""

    folder: Path
    version: int
    controllers: frozenset[str]


def own_trees(mounts: Path = _MOUNTS, own: Path = _OWN) -> list[GroupTree]:
    """The group of this process in each tree that has processor or memory."""
    try:
        paths: dict[str, str] = {}
        for line in own.read_text(encoding="utf-8").splitlines():
            _, names, path = line.split(":", 2)
            for name in names.split(","):
                paths[name] = path
        lines = [line.split() for line in mounts.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):
        return []
    trees: list[GroupTree] = []
    for words in lines:
        kind = words[words.index("-") + 1] if "-" in words else ""
        if kind not in ("cgroup", "cgroup2"):
            continue
        root, point, options = words[3], Path(words[4]), set(words[-1].split(","))
        if kind == "cgroup2":
            folder = point / _below(paths.get("", "/"), root)
            listed = _read(folder / "cgroup.controllers").split()
            trees.append(GroupTree(folder, 2, frozenset(listed) & {"cpu", "memory"}))
        else:
            here = [controller for controller in ("cpu", "memory") if controller in options and controller in paths]
            trees += [GroupTree(point / _below(paths[c], root), 1, frozenset({c})) for c in here]
    return [tree for tree in trees if tree.controllers]


def _below(path: str, root: str) -> str:
    """The path of a group under a mount that shows the tree from `root` on."""
    inner = path[len(root) :] if root != "/" and path.startswith(root) else path
    return inner.lstrip("/")


@dataclass(frozen=True, slots=True)
class PoolGroups:
    """The groups of a pool, one folder in each tree that could be used, and why a controller is missing."""

    cpu: GroupTree | None
    memory: GroupTree | None
    missing: dict[str, str]

    @property
    def folders(self) -> tuple[str, ...]:
        """All folders, for the record of the pool."""
        return tuple(dict.fromkeys(str(tree.folder) for tree in (self.cpu, self.memory) if tree is not None))


def make_groups(name: str, trees: Iterable[GroupTree] | None = None) -> PoolGroups:
    """A group for a pool in each tree where this process may make one, from which devices get theirs."""
    found: dict[str, GroupTree] = {}
    missing: dict[str, str] = {}
    for tree in own_trees() if trees is None else trees:
        for controller in sorted(tree.controllers - found.keys()):
            try:
                found[controller] = _pool_group(tree, name, controller)
                missing.pop(controller, None)
            except OSError as error:
                missing[controller] = (
                    f"no control group can be made under {tree.folder} ({error.strerror}); run as root, or in a group that was "
                    "delegated to this user (for systemd: a scope with Delegate=yes)"
                )
    for controller in ("cpu", "memory"):
        if controller not in found:
            missing.setdefault(controller, f"this system has no control groups for {controller}")
    return PoolGroups(found.get("cpu"), found.get("memory"), missing)


def _pool_group(tree: GroupTree, name: str, controller: str) -> GroupTree:
    folder = tree.folder / f"fedfleet-{name}"
    made = not folder.is_dir()
    folder.mkdir(exist_ok=True)
    try:
        if tree.version == 2:
            _make_room(tree.folder, name)
            _write(tree.folder / "cgroup.subtree_control", f"+{controller}")
            _write(folder / "cgroup.subtree_control", f"+{controller}")
    except OSError:
        if made:
            folder.rmdir()
        raise
    return GroupTree(folder, tree.version, frozenset({controller}))


def _make_room(folder: Path, name: str) -> None:
    """In version 2 a group with processes cannot limit groups below it. If this process is alone in its own, it moves down."""
    if _read(folder / "cgroup.procs").split() == [str(os.getpid())]:
        leaf = folder / f"fedfleet-{name}-pool"
        leaf.mkdir(exist_ok=True)
        _write(leaf / "cgroup.procs", "0")


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """The groups of one device process: the files by which it joins them, by which its share changes, and which tell of kills."""

    cpu: Path | None
    memory: Path | None
    version_cpu: int = 1
    version_memory: int = 1

    @property
    def join_files(self) -> list[str]:
        """A process joins by writing 0 into these."""
        return list(dict.fromkeys(str(folder / "cgroup.procs") for folder in (self.cpu, self.memory) if folder is not None))

    def set_share(self, share: float | None) -> None:
        """The part of one core that its process may use from now on; None: all that there is."""
        if self.cpu is None:
            return
        quota, period = quota_of(share)
        if self.version_cpu == 2:
            _write(self.cpu / "cpu.max", f"{'max' if share is None else quota} {period}")
            return
        # Without a quota in between: a period that fits the new one may not fit the old.
        _write(self.cpu / "cpu.cfs_quota_us", "-1")
        _write(self.cpu / "cpu.cfs_period_us", str(period))
        _write(self.cpu / "cpu.cfs_quota_us", str(-1 if share is None else quota))

    def set_memory(self, nbytes: int | None) -> None:
        """The memory beyond which the kernel kills its process; None: no limit."""
        if self.memory is None:
            return
        name = "memory.max" if self.version_memory == 2 else "memory.limit_in_bytes"
        _write(self.memory / name, ("max" if self.version_memory == 2 else "-1") if nbytes is None else str(nbytes))

    def oom_kills(self) -> int:
        """How many processes of this group the kernel has killed because of its memory limit."""
        if self.memory is None:
            return 0
        text = _read(self.memory / ("memory.events" if self.version_memory == 2 else "memory.oom_control"))
        return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))


def make_device_group(groups: PoolGroups, device: int) -> DeviceGroup:
    """The group of one device in the groups of its pool."""
    folders: list[Path | None] = []
    for tree in (groups.cpu, groups.memory):
        folder = None if tree is None else tree.folder / f"d{device}"
        if folder is not None:
            folder.mkdir(exist_ok=True)
        folders.append(folder)
    versions = [1 if tree is None else tree.version for tree in (groups.cpu, groups.memory)]
    return DeviceGroup(folders[0], folders[1], versions[0], versions[1])


def quota_of(share: float | None) -> tuple[int, int]:
    """The quota and the period in microseconds for a share of one core; small shares get a longer period.

    >>> quota_of(0.5), quota_of(0.01), quota_of(2.0)
    ((5000, 10000), (1000, 100000), (20000, 10000))
    """
    if share is None:
        return -1, PERIOD_US
    period = min(_LARGEST_PERIOD_US, max(PERIOD_US, round(_LEAST_QUOTA_US / share)))
    return max(_LEAST_QUOTA_US, round(share * period)), period


def remove_groups(folders: Iterable[str]) -> None:
    """Remove the groups of a pool whose processes are gone; the kernel may need a moment to see that."""
    for folder in map(Path, folders):
        for _ in range(100):
            for inner in folder.glob("*/"):
                with suppress(OSError):
                    inner.rmdir()
            with suppress(OSError):
                folder.rmdir()
            if not folder.is_dir():
                break
            time.sleep(0.02)


def join_groups(files: Iterable[str]) -> None:
    """Move this process into groups."""
    for file in files:
        _write(Path(file), "0")


def _write(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
