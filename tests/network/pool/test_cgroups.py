"""Control groups: found in what the system says of them, and written as each version wants it; on trees that the test makes."""

import os
import subprocess
import sys

import pytest

from fedfleet.network.pool import cgroups
from fedfleet.network.pool.cgroups import (
    DeviceGroup,
    GroupTree,
    PoolGroups,
    make_device_group,
    make_groups,
    own_trees,
    quota_of,
    remove_groups,
)

V1_MOUNTS = """\
31 23 0:28 / {root} rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / {root}/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 / {root}/memory rw,relatime - cgroup cgroup rw,memory
34 31 0:31 / {root}/freezer rw,relatime - cgroup cgroup rw,freezer
"""
V1_OWN = "5:freezer:/x\n4:memory:/jobs/one\n2:cpu,cpuacct:/\n0::/\n"
V2_MOUNTS = "29 23 0:26 / {root} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V2_OWN = "0::/user.slice/one.scope\n"


@pytest.fixture
def machine(tmp_path):
    """What the system says, in files of the test."""

    def make(mounts, own):
        (tmp_path / "mountinfo").write_text(mounts.format(root=tmp_path / "cgroup"))
        (tmp_path / "own").write_text(own)
        return own_trees(tmp_path / "mountinfo", tmp_path / "own")

    return make


def test_version_1_has_a_tree_for_each_controller(machine, tmp_path):
    root = tmp_path / "cgroup"
    assert machine(V1_MOUNTS, V1_OWN) == [
        GroupTree(root / "cpu,cpuacct", 1, frozenset({"cpu"})),
        GroupTree(root / "memory/jobs/one", 1, frozenset({"memory"})),
    ]


def test_version_2_has_one_tree_for_what_it_controls(machine, tmp_path):
    scope = tmp_path / "cgroup/user.slice/one.scope"
    scope.mkdir(parents=True)
    (scope / "cgroup.controllers").write_text("cpuset cpu memory pids\n")
    assert machine(V2_MOUNTS, V2_OWN) == [GroupTree(scope, 2, frozenset({"cpu", "memory"}))]


def test_a_mount_that_shows_a_part_of_the_tree_is_understood(machine, tmp_path):
    mounts = "33 31 0:30 /jobs {root}/memory rw,relatime - cgroup cgroup rw,memory\n"
    assert machine(mounts, V1_OWN) == [GroupTree(tmp_path / "cgroup/memory/one", 1, frozenset({"memory"}))]


@pytest.mark.parametrize(("mounts", "own"), [("", ""), ("nonsense\n", "nonsense\n"), (V1_MOUNTS, "0::/\n")])
def test_a_system_without_groups_has_none(machine, mounts, own):
    assert machine(mounts, own) == []


def test_what_cannot_be_made_is_said_with_a_cure(tmp_path):
    groups = make_groups("p", [GroupTree(tmp_path / "absent", 1, frozenset({"cpu"}))])
    assert groups.cpu is None
    assert "Delegate=yes" in groups.missing["cpu"]
    assert groups.missing["memory"] == "this system has no control groups for memory"
    assert make_device_group(groups, 0) == DeviceGroup(None, None)


def test_a_device_joins_and_is_limited_in_version_1(tmp_path):
    groups = make_groups("p", [GroupTree(tmp_path, 1, frozenset({"cpu"}))])
    group = make_device_group(groups, 3)
    folder = tmp_path / "fedfleet-p" / "d3"
    for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"):
        (folder / name).write_text("")
    group.set_share(0.3)
    assert ((folder / "cpu.cfs_quota_us").read_text()[:4], (folder / "cpu.cfs_period_us").read_text()) == ("3000", "10000")
    assert group.join_files == [str(folder / "cgroup.procs")]
    assert group.oom_kills() == 0


def test_a_device_joins_and_is_limited_in_version_2(tmp_path):
    folder = tmp_path / "d0"
    folder.mkdir()
    for name in ("cpu.max", "memory.max"):
        (folder / name).write_text("")
    (folder / "memory.events").write_text("low 0\nhigh 3\nmax 5\noom 1\noom_kill 2\noom_group_kill 0\n")
    group = DeviceGroup(folder, folder, 2, 2)
    group.set_share(0.05)
    group.set_memory(1 << 20)
    assert (folder / "cpu.max").read_text() == "1000 20000"
    assert (folder / "memory.max").read_text() == "1048576"
    assert group.oom_kills() == 2
    assert group.join_files == [str(folder / "cgroup.procs")]


@pytest.mark.parametrize("alone", [True, False])
def test_in_version_2_a_pool_that_is_alone_makes_room_first(tmp_path, monkeypatch, alone):
    (tmp_path / "cgroup.procs").write_text(f"{os.getpid()}\n" + ("" if alone else "1\n"))
    writes = []
    monkeypatch.setattr(cgroups, "_write", lambda path, text: writes.append((str(path.relative_to(tmp_path)), text)))
    make_groups("p", [GroupTree(tmp_path, 2, frozenset({"cpu"}))])
    room = [("fedfleet-p-pool/cgroup.procs", "0")] if alone else []
    assert writes == [*room, ("cgroup.subtree_control", "+cpu"), ("fedfleet-p/cgroup.subtree_control", "+cpu")]


@pytest.mark.parametrize("share", [0.01, 0.033, 0.25, 1.0, 3.5])
def test_quotas_are_shares_that_the_kernel_takes(share):
    quota, period = quota_of(share)
    assert quota >= 1000
    assert 1000 <= period <= 1_000_000
    assert quota / period == pytest.approx(share, rel=0.02)


def test_groups_are_removed_with_those_of_their_devices(tmp_path):
    (tmp_path / "fedfleet-p" / "d0").mkdir(parents=True)
    remove_groups([str(tmp_path / "fedfleet-p"), str(tmp_path / "absent")])
    assert not (tmp_path / "fedfleet-p").exists()


def test_real_groups_hold_a_process_and_tell_of_its_kill():
    """Where the system lets us."""
    groups = make_groups(f"test-{os.getpid()}")
    if groups.memory is None or groups.cpu is None:
        pytest.skip(" ".join(groups.missing.values()))
    try:
        group = make_device_group(groups, 0)
        group.set_share(0.5)
        group.set_share(None)
        group.set_share(0.02)
        group.set_share(2.0)
        group.set_memory(32 << 20)
        code = (
            "import sys; from pathlib import Path\n"
            "for file in sys.argv[1:]: Path(file).write_text('0')\n"
            "x = b'1' * (256 << 20)"
        )  # fmt: skip
        done = subprocess.run([sys.executable, "-c", code, *group.join_files], check=False, timeout=60)
        assert done.returncode == -9
        assert group.oom_kills() == 1
    finally:
        remove_groups(groups.folders)
    assert not any(os.path.isdir(folder) for folder in groups.folders)


def test_without_trees_there_are_no_folders():
    assert PoolGroups(None, None, {}).folders == ()
    assert cgroups.make_groups("x", []).missing.keys() == {"cpu", "memory"}
