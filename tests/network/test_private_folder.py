"""The folder of a served run, walked while it is served, after a kill and at its end: no other user can read anything in it."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from fedfleet.core.events import ModelCommitted
from tests.network.fleets import fleet
from tests.network.harness import ROOT, wait_for
from tests.processes import start

pytestmark = pytest.mark.slow


def readable_by_others(folder: Path) -> list[str]:
    """Everything below a folder that another user could read, write or enter."""
    result: list[str] = []
    for path in [folder, *folder.rglob("*")]:
        try:
            info = path.lstat()
        except FileNotFoundError:  # it was removed meanwhile
            continue
        if stat.S_IMODE(info.st_mode) & 0o077:
            result.append(f"{path} {stat.S_IMODE(info.st_mode):o}")
    return result


def shared_folders(pid: int) -> list[Path]:
    """What this server has in shared memory."""
    return list(Path("/dev/shm").glob(f"fedfleet-{pid}-*"))


def test_nobody_else_can_read_what_a_served_run_writes(tmp_path: Path) -> None:
    before = os.umask(0)  # the least private that a process can be
    try:
        with fleet(tmp_path, 'use = "fedavg"', clients=2, rounds=3) as served:
            words = ("--keep-reports", "--evaluate", "both")
            served.serve(*words)
            served.start(0, 1)
            out, place = served.place.out, served.place

            def committed() -> bool:
                assert place.server is not None
                assert [one for folder in (out, *shared_folders(place.server.pid)) for one in readable_by_others(folder)] == []
                return any(isinstance(e, ModelCommitted) for e in place.events())

            wait_for(committed, "a model", said=served.said)
            place.kill_everything()
            assert readable_by_others(out) == []
            kept = {path.relative_to(out).parts[0] for path in out.rglob("*")}
            assert {"run.db", "wire", "aggregates", "spec.toml", "executor.json"} <= kept
            served.serve(*words, resume=True)
            assert place.ended() == 0, served.said()
        report = start("fedfleet.app.cli.main", "report", out, "--json", cwd=ROOT, stdout=subprocess.DEVNULL)
        assert report.wait(60) == 0
        assert readable_by_others(out) == []
        assert {"model.safetensors", "metrics.json", "report.html", "seal.json"} <= {p.name for p in out.iterdir()}
    finally:
        os.umask(before)
