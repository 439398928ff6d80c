"""The wire without torch and without processes: toy devices as threads on loopback, and the pieces one by one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedfleet.app.runs.network import serve_run
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import CandidatesSeen, Evaluated, Event, TaskArrived, TaskLost, TimerFired
from fedfleet.core.parts import Plan, Selector, World
from fedfleet.core.records import Report, Roster, Stop, whole_work
from fedfleet.core.trees import content_hash
from fedfleet.engine.state import RunState
from fedfleet.pace.overcommit import overcommit
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.runtime import journal as journals
from fedfleet.runtime.audit import audit
from fedfleet.runtime.wire import device
from fedfleet.runtime.wire.codec import Garbled, split_address, tree_from_bytes, tree_to_bytes
from fedfleet.runtime.wire.desk import Errand, RunOver, TaskDesk
from fedfleet.runtime.wire.device import Rebuilt, attend
from fedfleet.runtime.wire.server import check_servable, serve
from fedfleet.runtime.wire.service import Service, listening
from fedfleet.testing.toys import consensus, opaque_executor
from tests.worlds import commits_at, even_fleet, events_of, only, roster_of, toy_plan, world_of

LOOPBACK = "127.0.0.1:0"

# ---- whole runs ---------------------------------------------------------------------------------------------------


def served(plan: Plan, world: World, folder: Path) -> tuple[RunState, list[int], list[Event]]:
    """A run over loopback: where it ended, how many tasks each device did, and its events as they were journalled."""
    desk = TaskDesk(plan.clients)
    journal = journals.create(folder / "run.db")
    kit = Rebuilt(plan.algorithm, world, opaque_executor(), "toy")
    # The devices are joined last, when the server is gone: only then do all of them end, also after an error.
    with ThreadPoolExecutor(plan.clients) as threads, closing(journal):
        with listening(Service(desk, "spec", "toy"), desk, LOOPBACK, 1 << 20) as (address, server):
            server.start()
            devices = [threads.submit(attend, address, client, lambda text: kit) for client in range(plan.clients)]
            done = serve(plan, world, opaque_executor(), desk, devices=plan.clients, journal=journal, folder=folder)
        tasks = [d.result(10) for d in devices]
    return done, tasks, list(journals.read(folder / "run.db"))


@pytest.mark.parametrize("seed", range(3))
def test_a_toy_fleet_ends_as_its_simulation_does(tmp_path: Path, seed: int) -> None:
    plan, world = toy_plan(readiness(5, t_break=0.01), 5, seed=seed), world_of(even_fleet(5))
    done, tasks, events = served(plan, world, tmp_path)
    assert tasks == [4] * 5
    assert content_hash(done.server.params) == content_hash(events_of(plan, world)[1].state.server.params)
    found = audit(plan, world, opaque_executor(), events, tmp_path)
    assert found.source == "kept aggregates"
    assert content_hash(found.replayed.state.server.params) == content_hash(done.server.params)


@pytest.mark.parametrize(
    "pace",
    [
        deadline(4, seconds=0.02, t_break=0.01, min_clients=1),
        overcommit(readiness(3, t_break=0.01), factor=2.0),
        commits_at(3, 1, t_break=0.005),  # leaves tasks running, so that reports arrive while others are gathered
    ],
    ids=lambda p: p.name,
)
def test_whatever_the_order_of_events_the_journal_replays(tmp_path: Path, pace) -> None:
    plan, world = toy_plan(pace, 8, stop=Stop(rounds=25)), world_of(even_fleet(8))
    done, _, events = served(plan, world, tmp_path)
    times = [e.time for e in events]
    assert times == sorted(times)
    found = audit(plan, world, opaque_executor(), events, tmp_path)
    assert content_hash(found.replayed.state.server.params) == content_hash(done.server.params)
    assert found.replayed.commits == done.book.version


def test_an_error_of_the_coordinator_stops_the_server_and_surfaces(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(device, "PATIENCE_SECONDS", 0.5)
    stranger = Selector("stranger", lambda state, roster, n, draw: whole_work(np.full(n, 99, np.int64)))
    plan, world = toy_plan(readiness(2, t_break=0.01), 2, choose=stranger), world_of(even_fleet(2))
    with pytest.raises(RunFailed, match="'stranger' picked"):
        served(plan, world, tmp_path)


def test_the_horizon_ends_a_run_whose_devices_stay_away(tmp_path: Path) -> None:
    plan, world = toy_plan(readiness(2, t_break=0.05), 2, stop=Stop(virtual_seconds=0.4)), world_of(even_fleet(2))
    seen: list[Event] = []
    journal = journals.in_memory()
    serve(plan, world, opaque_executor(), TaskDesk(2), devices=0, journal=journal, folder=tmp_path, watch=seen.extend)
    assert not only(CandidatesSeen, seen)
    assert seen[-1].reason == "virtual_seconds"  # type: ignore[union-attr]


# ---- the desk -----------------------------------------------------------------------------------------------------


def errand(task: int, client: int, sent_at: float = 0.0) -> Errand:
    return Errand(task, client, 0, b"", 0, 1.0, 0, sent_at, 1.0)


def ready_desk(clients: int) -> TaskDesk:
    desk = TaskDesk(clients)
    for client in range(clients):
        desk.enrol(client)
        assert desk.pull(client, 0.0) is None
    desk.await_enrolled(clients)
    return desk


def hang_up(desk: TaskDesk, client: int) -> None:
    """A client calls, and dies before it is answered."""
    assert desk.pull(client, 30.0, lambda: False) is None


def test_work_is_handed_out_until_it_is_claimed_once() -> None:
    desk = ready_desk(2)
    desk.hand_out([errand(7, 1)])
    assert desk.pull(0, 0.0) is None
    assert desk.pull(1, 0.0) == desk.pull(1, 0.0) == errand(7, 1)
    assert desk.claim(7, 0) is None
    assert desk.claim(8, 1) is None
    assert desk.claim(7, 1) == errand(7, 1)
    assert desk.claim(7, 1) is None
    assert desk.pull(1, 0.0) is None


def test_withdrawn_work_is_gone() -> None:
    desk = ready_desk(1)
    desk.hand_out([errand(7, 0)])
    desk.withdraw([7])
    assert desk.pull(0, 0.0) is None
    assert desk.claim(7, 0) is None


def test_a_wake_up_comes_before_what_happened_after_it() -> None:
    desk = ready_desk(1)
    early = errand(0, 0)
    desk.arrived(early, Report(0, 0, {}, 1.0, {}), 8.0)
    fact, report = desk.next_fact(1e-9, (), None)
    assert fact == TimerFired(1e-9)
    assert report is None
    fact, report = desk.next_fact(None, (), None)
    assert isinstance(fact, TaskArrived)
    assert report is not None


def test_own_facts_are_stamped_after_what_came_in_meanwhile() -> None:
    desk = ready_desk(1)
    desk.lost(errand(0, 0), "garbled")
    desk.answer(Evaluated(0.0, 0, 1, 2, 0.5))
    first, second = desk.next_fact(None, (), None)[0], desk.next_fact(None, (), None)[0]
    assert isinstance(first, TaskLost)
    assert isinstance(second, Evaluated)
    assert 0.0 < first.time <= second.time


def test_candidates_are_those_that_are_there_and_not_busy() -> None:
    desk = ready_desk(4)
    hang_up(desk, 3)
    asked: list[list[int]] = []

    def roster(idle: list[int]) -> Roster:
        asked.append(idle)
        return roster_of(*idle)

    assert isinstance(desk.next_fact(None, {1}, roster)[0], CandidatesSeen)
    assert asked == [[0, 2]]


def test_asking_waits_until_someone_is_idle() -> None:
    desk = ready_desk(2)
    hang_up(desk, 0)
    hang_up(desk, 1)
    threading.Timer(0.05, lambda: desk.pull(1, 0.0)).start()
    fact, _ = desk.next_fact(30.0, (), lambda idle: roster_of(*idle))
    assert isinstance(fact, CandidatesSeen)
    assert fact.roster.clients.tolist() == [1]


def test_everyone_hears_that_it_is_over() -> None:
    desk = ready_desk(1)
    heard: list[object] = []
    thread = threading.Thread(target=lambda: heard.append(desk.pull(0, 30.0)))
    thread.start()
    desk.finish("rounds", 10.0)
    thread.join(10)
    assert heard == [RunOver("rounds")]


# ---- the codec and the borders ------------------------------------------------------------------------------------


def test_trees_survive_the_wire_with_types_and_shapes() -> None:
    tree = {
        "scalar": np.array(3, np.int64),
        "strided": np.arange(12, dtype=np.float32).reshape(3, 4).T,
        "empty": np.zeros((0, 2), np.float32),
        "half": np.ones(3, np.float16),
    }
    back = tree_from_bytes(tree_to_bytes(tree))
    assert content_hash(back) == content_hash(tree)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x04K\x01.",
        b"\xff" * 64,
        tree_to_bytes({"w": np.ones(4)})[:-1],
        tree_to_bytes({"w": np.ones(4)}) + b"x",
    ]
    + [b'\x38\0\0\0\0\0\0\0{"w":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}   ' + b"\0" * 2],
)
def test_garbled_bytes_are_named_and_never_more(data: bytes) -> None:
    with pytest.raises(Garbled):
        tree_from_bytes(data)


@pytest.mark.parametrize(
    "text", ["", "here", ":1", "a:b", "a:-1", "a:65536", "a:1:2", "::1:80", "unix:/tmp/x", "a b:1", "a:0"]
)
def test_a_malformed_address_is_bad_input(text: str) -> None:
    with pytest.raises(BadInput, match="HOST:PORT"):
        split_address(text)


def test_good_addresses() -> None:
    assert split_address("localhost:1") == ("localhost", 1)
    assert split_address("[::1]:50051") == ("[::1]", 50051)
    assert split_address("127.0.0.1:0", any_port=True) == ("127.0.0.1", 0)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.toml"
    path.write_text('[task]\nuse = "digits_logreg"\n[world]\nclients = 3\n[pace]\ncohort = 3\n')
    return path


def test_a_port_that_is_taken_is_bad_input_and_leaves_no_folder(spec: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BadInput, match="taken"):
            serve_run(spec, [], tmp_path / "out", f"127.0.0.1:{taken.getsockname()[1]}", None)
    assert not (tmp_path / "out").exists()


def refused(spec: Path, out: Path, *words: str, address: str = LOOPBACK, devices: int | None = None) -> str:
    with pytest.raises(BadInput) as wrong:
        serve_run(spec, list(words), out, address, devices)
    return str(wrong.value)


def test_what_cannot_be_served_is_bad_input(spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "HOST:PORT" in refused(spec, out, address="nowhere")
    assert "remember" in refused(spec, out, "algorithm.use=local_only")
    assert "4 devices" in refused(spec, out, devices=4)
    assert "0 devices" in refused(spec, out, devices=0)
    assert "64 bits" in refused(spec, out, f"seed={1 << 64}")
    assert not out.exists()
    out.mkdir()
    (out / "something").touch()
    assert "exists" in refused(spec, out)


def test_a_selector_that_probes_cannot_be_served() -> None:
    plan = toy_plan(readiness(2), 2)
    curious = replace(plan.choose, probe=lambda state, roster, n, draw: (roster.clients, "loss"))
    with pytest.raises(BadInput, match="probes"):
        check_servable(replace(plan, choose=curious), 2)
    with pytest.raises(BadInput, match="remember"):
        check_servable(replace(plan, algorithm=consensus(remembers=True)), 2)


def test_a_device_gives_up_when_no_server_answers(monkeypatch) -> None:
    monkeypatch.setattr(device, "PATIENCE_SECONDS", 0.5)
    rebuild: Callable[[str], Rebuilt] = lambda text: pytest.fail("nobody answered")  # noqa: E731
    with pytest.raises(BadInput, match="no server answers"):
        attend("127.0.0.1:1", 0, rebuild)
    with pytest.raises(BadInput, match="HOST:PORT"):
        attend("nowhere", 0, rebuild)
    with pytest.raises(BadInput, match="--client"):
        attend("127.0.0.1:1", -1, rebuild)
