"""Serving: a run from begin to end in this process, the folder is nobody else's, and a stop is no failure."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.trees import content_hash
from fedfleet.network.evaluation.evaluators import EvalContext
from fedfleet.network.rules.task_table import Phase
from fedfleet.network.security.enrolment import Registry, Terms
from fedfleet.network.security.secrets import run_key
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.recovery import recover
from fedfleet.network.server.serve import ListeningServer, ServerStopped, frontend_config, make_private, serve
from fedfleet.network.server.served_plan import ServedRun
from fedfleet.store import journal as journals
from fedfleet.testing.toys import opaque_executor
from tests.network.crowd import crowd
from tests.network.evaluation.thread import ThreadEvaluator
from tests.network.scene import Scene, play
from tests.network.server.test_commit import opened
from tests.network.toys import Toy, plan_of, reference, world_for

pytestmark = pytest.mark.slow

TOY = Toy(clients=3, rounds=2)


def served_in(folder: Path, journal: journals.Journal) -> ServedRun:
    plan, world = plan_of(TOY), world_for(TOY)
    (folder / "wire").mkdir(exist_ok=True)
    (folder / "aggregates").mkdir(exist_ok=True)
    key = run_key(folder / "wire" / "run.key")
    registry = Registry(folder / "wire" / "devices.db", key, Terms(TOY.clients, open=True))
    judge = ThreadEvaluator(EvalContext(plan, world, opaque_executor()))
    return ServedRun(plan, world, judge, registry, key, lambda client: b"{}", journal, folder, "toy")


def test_a_run_in_one_process_ends_as_its_simulation_does_and_devices_hear_of_it(tmp_path: Path) -> None:
    served = served_in(tmp_path, journals.create(tmp_path / "run.db", "toy"))
    options = ServeOptions("127.0.0.1:0", 3, 0, farewell_seconds=2.0, quiet=True)
    people: list = []
    errors: list = []

    def listening(processor: object, where: ListeningServer) -> None:
        assert where.pids == ()

        def run() -> None:
            with crowd(TOY, where.address) as result:
                people.append(result)
                done.wait(20)
                errors.extend(result.errors)

        thread = threading.Thread(target=run)
        threads.append(thread)
        thread.start()

    threads: list[threading.Thread] = []
    done = threading.Event()
    state = serve(served, options, on_listening=listening)
    done.set()
    for thread in threads:
        thread.join(60)
    served.journal.close()
    assert content_hash(state.server.params) == content_hash(reference(TOY)[1]) and errors == []


def test_a_fleet_that_cannot_come_is_refused_before_anything_starts(tmp_path: Path) -> None:
    served = served_in(tmp_path, journals.create(tmp_path / "run.db", "toy"))
    with pytest.raises(BadInput, match="--devices"):
        serve(served, ServeOptions(devices=9))
    served.journal.close()


def test_a_stop_has_its_signal() -> None:
    assert str(ServerStopped(15)) == "stopped by SIGTERM" and ServerStopped(2).number == 2


def test_folders_are_nobody_elses(tmp_path: Path) -> None:
    make_private(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_what_transmitters_are_told_follows_from_the_plan(tmp_path: Path) -> None:
    served = served_in(tmp_path, journals.create(tmp_path / "run.db", "toy"))
    start = frontend_config(served, ServeOptions(keep_reports=True, hold=7), True, "127.0.0.1:5", tmp_path, {"key": "k"})
    assert start.stream and start.spool and start.hold == 7 and start.tls == {"key": "k"}
    assert start.clients == 3 and start.codecs == [] and start.key == served.key.data.hex()
    assert frontend_config(served, ServeOptions(), False, "a:1", tmp_path, {}).spool
    served.journal.close()


def test_leases_begin_anew_when_a_server_goes_on(tmp_path: Path) -> None:
    async def first(scene: Scene) -> None:
        await opened(scene, 3)
        scene.pass_by(20.0)
        await scene.turn()

    async def second(scene: Scene) -> None:
        processor = scene.processor
        assert [processor.admission.tasks.phase(task) for task in range(3)] == [Phase.OPEN] * 3
        assert processor.candidates.busy.all()
        scene.pass_by(25.0)
        await scene.turn()
        assert len(scene.running) == 3
        scene.pass_by(10.0)
        await scene.turn()
        assert scene.running == []

    play(tmp_path, TOY, first, lease=30.0)
    play(tmp_path, TOY, second, resume=True, lease=30.0)
    journal, back = recover(plan_of(TOY), world_for(TOY), tmp_path)
    journal.close()
    assert back.started
