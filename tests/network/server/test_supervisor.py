"""Tending: a transmitter that dies is started again, one that gives up ends the run with its sentence."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.server.supervisor import Supervisor, frontend_configs, frontend_count, reserve_port
from tests.network.stage import start_in, until

pytestmark = pytest.mark.slow


class Watched:
    """What a processor would hear."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, inside.ToProcessor]] = []
        self.died: list[int] = []
        self.failed: list[BaseException] = []

    def tending(self, starts: list[Any], *, own: bool) -> Supervisor:
        return Supervisor(starts, lambda i, m: self.heard.append((i, m)), self.died.append, self.failed.append, in_process=own)

    def ready(self) -> list[int]:
        return [i for i, m in self.heard if m.HasField("ready")]


def played(act: Any) -> None:
    asyncio.run(act())


@asynccontextmanager
async def one_of(folder: Path, watched: Watched) -> AsyncIterator[Supervisor]:
    """One transmitter on a port of its own, started and closed."""
    held, address = reserve_port("127.0.0.1:0")
    tending = watched.tending(frontend_configs(start_in(folder, address=address), 1, str(folder)), own=False)
    try:
        await tending.start(0)
        yield tending
    finally:
        await tending.close()
        held.close()


def test_an_interrupt_at_its_start_is_for_the_processor_alone(tmp_path: Path) -> None:
    async def act() -> None:
        watched = Watched()
        async with one_of(tmp_path, watched) as tending:
            (pid,) = tending.pids()
            os.kill(pid, signal.SIGINT)  # as Ctrl-C does to all of the terminal's group; it still imports
            await until(lambda: watched.ready() or watched.died)
            assert watched.ready() == [0] and not watched.died

    played(act)


def test_one_that_is_killed_is_told_of_and_starts_again(tmp_path: Path) -> None:
    async def act() -> None:
        watched = Watched()
        async with one_of(tmp_path, watched) as tending:
            await until(watched.ready)
            (pid,) = tending.pids()
            os.kill(pid, signal.SIGKILL)
            await until(lambda: watched.died == [0])
            assert tending.pids() == [] and tending.frontends[0].deaths == 1 and not tending.frontends[0].ready
            tending.send_now(0, inside.ToTransmitter(discard=[1]))  # to nobody
            await tending.start(0)
            await until(lambda: len(watched.ready()) == 2)
        assert tending.pids() == [] and watched.died == [0] and watched.failed == []

    played(act)


def test_one_that_cannot_go_on_ends_the_run_and_is_not_started_again(tmp_path: Path, capfd: Any) -> None:
    async def act() -> None:
        (tmp_path / "t0").write_text("not a folder")
        watched = Watched()
        starts = frontend_configs(start_in(tmp_path, address="127.0.0.1:0"), 1, str(tmp_path))
        tending = watched.tending(starts, own=False)
        await tending.start(0)
        await until(lambda: watched.failed)
        assert watched.died == [] and "frontend 0" in str(watched.failed[0])
        await tending.close()

    played(act)
    said = capfd.readouterr().err
    assert "check disk space" in said and "Traceback" not in said


def test_one_in_this_process_that_cannot_go_on_ends_the_run_with_its_sentence(tmp_path: Path) -> None:
    async def act() -> None:
        (tmp_path / "t0").write_text("not a folder")
        watched = Watched()
        tending = watched.tending(frontend_configs(start_in(tmp_path, address="127.0.0.1:0"), 0, str(tmp_path)), own=True)
        await tending.start(0)
        await until(lambda: watched.failed)
        assert isinstance(watched.failed[0], RunFailed) and "check disk space" in str(watched.failed[0])
        assert watched.died == []
        await tending.close()

    played(act)


def test_what_gathers_goes_to_those_who_are_ready(tmp_path: Path) -> None:
    async def act() -> None:
        sent: list[inside.ToTransmitter] = []

        class Line:
            def send(self, message: inside.ToTransmitter) -> None:
                sent.append(message)

            def close(self) -> None:
                pass

        tending = Watched().tending(frontend_configs(start_in(tmp_path), 2, "f"), own=True)
        for tended in tending.frontends:
            tended.link = Line()  # type: ignore[assignment]
        tending.frontends[1].ready = True
        for tended in tending.frontends:
            tended.outbox.withdrawn.append(tended.config.index)
        tending.send()
        tending.send()
        assert [list(m.withdrawn) for m in sent] == [[1]]
        tending.frontends[0].ready = True
        tending.send()
        assert [list(m.withdrawn) for m in sent] == [[1], [0]]

    played(act)


def test_a_port_that_is_taken_is_refused_in_one_sentence() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(BadInput, match="--address"):
            reserve_port(f"127.0.0.1:{other.getsockname()[1]}")
    held, address = reserve_port("127.0.0.1:0")
    assert address.startswith("127.0.0.1:") and not address.endswith(":0")
    with pytest.raises(BadInput):
        reserve_port(address)  # a second server must not join in silence
    held.close()


def test_shares_and_folders_of_transmitters(tmp_path: Path) -> None:
    starts = frontend_configs(start_in(tmp_path, hold=9, in_flight_bytes=100), 3, "/run/wire")
    assert [(s.index, s.folder, s.hold, s.in_flight_bytes) for s in starts] == [(i, f"/run/wire/t{i}", 3, 33) for i in range(3)]
    assert len(frontend_configs(start_in(tmp_path), 0, "x")) == 1


def test_whoever_left_reports_behind_is_started_again(tmp_path: Path) -> None:
    for name in ("t0", "t2", "tx"):
        (tmp_path / name).mkdir()
    assert (frontend_count(1, tmp_path), frontend_count(5, tmp_path), frontend_count(0, tmp_path)) == (3, 5, 3)
    assert frontend_count(0, tmp_path / "none") == 0
