"""Judging: by the server, by devices until their time is over, or both; a restarted transmitter hears who is still asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedfleet.core.commands import Evaluate, Probe
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import Evaluated, ModelCommitted
from fedfleet.core.kinds import REGRESSION, score_range
from fedfleet.core.records import ClientScores, EvalScore, Score, Tally
from fedfleet.measure.score_info import kind_of_measures
from fedfleet.network.evaluation.by_devices import record_answer
from fedfleet.network.evaluation.evaluators import EvalResult
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import FIRST_EVAL_TASK, is_eval_task
from fedfleet.network.server.evaluations import EvalShare, Evaluations, evaluation_fact, share_of
from fedfleet.network.server.turns import Effects, ReactLater
from tests.network.evaluation.test_by_devices import asked, said
from tests.network.scene import Scene, play
from tests.network.server.test_commit import all_granted, opened
from tests.network.server.test_server_loop import tasks_in
from tests.network.toys import Toy

TOY = Toy(clients=4, rounds=3)


@pytest.fixture(autouse=True)
def five_samples_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Evaluations, "_test_sample_counts", lambda self, clients: np.full(len(clients), 5))


async def evaluating(scene: Scene) -> list[int]:
    """The first model is made, and devices are asked to judge it; the tasks of judging."""
    at = await all_granted(scene, await opened(scene))
    for index, own in at.items():
        scene.safe(index, *own)
        scene.closed(index, 0, own)
    scene.here(*range(4))
    await scene.until(lambda: judged_waves(scene, 0))
    (wave,) = judged_waves(scene, 0)
    return list(range(wave.first, wave.first + 4))


def judged_waves(scene: Scene, index: int) -> list[inside.Wave]:
    return [w for m in scene.desk.told[index] for w in m.waves if is_eval_task(w.first)]


def answer(scene: Scene, index: int, task: int, first: int, **said: Any) -> None:
    """A device answers."""
    scene.numbers[index] = number = scene.numbers.get(index, 0) + 1
    fields = {
        "number": number,
        "client": task - first,
        "task": task,
        "kind": pb.EVALUATE,
        "correct": 3,
        "total": 5,
        "loss": 0.5,
    }
    scene.say(index, claims=[inside.Claim(**(fields | said))])


def facts_in(effects: Effects) -> list[Any]:
    """The facts that the coordinator is to take."""
    return [effect.fact for effect in effects if isinstance(effect, ReactLater)]


def statuses(scene: Scene, index: int) -> list[int]:
    return [grant.status for message in scene.told(index) for grant in message.grants]


def test_devices_judge_in_integers_and_who_is_silent_is_left_out(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        tasks = await evaluating(scene)
        first = tasks[0]
        scene.told(0)
        answer(scene, 0, tasks[0], first)
        answer(scene, 0, tasks[0], first, correct=4)
        answer(scene, 0, tasks[1], first, correct=9)
        answer(scene, 0, tasks[2], first, declined="no samples")
        await scene.turn()
        assert statuses(scene, 0) == [pb.Receipt.SAFE, pb.Receipt.SAFE, pb.Receipt.REFUSED, pb.Receipt.SAFE]
        assert set(tasks[:3]) <= {t for m in scene.told(1) for t in m.withdrawn}
        assert len(scene.events(Evaluated)) == 1
        scene.pass_by(61.0)
        await scene.until(lambda: len(scene.events(Evaluated)) == 2)
        result = scene.events(Evaluated)[-1]
        assert (result.correct, result.total, result.clients.clients.tolist()) == (3, 5, [0])
        assert "by 1 of 4 devices: 2 declined, 1 " in scene.remarks()
        assert tasks[3] in {t for m in scene.told(1) for t in m.withdrawn}
        answer(scene, 1, tasks[3], first)
        await scene.turn()
        assert statuses(scene, 1) == [pb.Receipt.UNWANTED]

    play(tmp_path, TOY, act, evaluate="devices")


def test_a_transmitter_that_starts_again_hears_who_is_still_asked(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        tasks = await evaluating(scene)
        answer(scene, 0, tasks[0], tasks[0])
        scene.die(1)
        await scene.turn()
        scene.ready(1)
        await scene.turn()
        (message,) = [m for m in scene.told(1) if m.waves]
        assert tasks_in(message) == tasks[1:]
        for task in tasks[1:]:
            answer(scene, 1, task, tasks[0])
        await scene.until(lambda: len(scene.events(Evaluated)) == 2)
        assert scene.events(Evaluated)[-1].total == 20

    play(tmp_path, TOY, act, evaluate="devices")


def test_a_probe_that_is_out_and_an_evaluation_do_not_meet(tmp_path: Path) -> None:
    """Asynchronous runs evaluate while a probe is out; each has its own answers and its own end."""

    async def act(scene: Scene) -> None:
        for index in (0, 1):
            scene.ready(index)
        scene.here(0, 1, 2)
        await scene.turn()
        judgement, server = scene.processor.evaluations, scene.processor.state.server
        scene.told(0)
        scene.processor.probe(Probe(np.array([0, 1]), "loss", server, within=30.0))
        scene.processor.evaluate(Evaluate(0, server, clients=True))
        assert judgement.versions() == {0}
        await scene.turn(1)
        probe, evaluation = judged_waves(scene, 0)
        assert (probe.kind, evaluation.kind) == (pb.PROBE, pb.EVALUATE)
        answer(scene, 0, probe.first, probe.first, kind=pb.PROBE, loss=2.0)
        for n in range(3):
            answer(scene, 0, evaluation.first + n, evaluation.first)
        scene.processor.turns.do_scheduled()
        assert judgement.deadline() is not None
        now = scene.processor.now()
        (evaluated,) = facts_in(judgement.on_time(0, now))
        assert isinstance(evaluated, Evaluated) and evaluated.total == 15
        (probed,) = facts_in(judgement.on_time(0, now + 31.0))
        np.testing.assert_equal(probed.values, [2.0, np.nan])
        assert judgement.deadline() is None and judgement.versions() == set()

    play(tmp_path, TOY, act, evaluate="devices", devices=4)


def test_with_nobody_there_the_server_judges(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.ready(0)
        scene.ready(1)
        await scene.until(lambda: scene.events(Evaluated))
        assert judged_waves(scene, 0) == []

    play(tmp_path, TOY, act, evaluate="devices")


def test_who_is_at_work_is_not_asked_to_judge(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await opened(scene)
        scene.here(*range(4))
        await scene.turn()
        scene.told(0)
        scene.processor.evaluate(Evaluate(0, scene.processor.state.server, clients=True))
        await scene.turn(1)
        assert judged_waves(scene, 0) == []
        scene.processor.evaluations._evaluate = None

    play(tmp_path, TOY, act, evaluate="devices")


def test_a_selector_that_asks_for_what_no_device_can_tell_ends_the_run(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        with pytest.raises(RunFailed, match="devices cannot report before they train"):
            scene.processor.probe(Probe(np.array([0]), "seconds", scene.processor.state.server))

    play(tmp_path, TOY, act)


def test_devices_that_should_judge_have_time_to_come_back(tmp_path: Path) -> None:
    """A server that was started again in the midst of an evaluation knows nobody yet: it waits, and no longer than its patience."""

    async def act(scene: Scene) -> None:
        at = await all_granted(scene, await opened(scene))
        scene.say(0, gone=list(range(4)))
        await scene.turn()
        for index, own in at.items():
            scene.safe(index, *own)
            scene.closed(index, 0, own)
        await scene.until(lambda: scene.events(ModelCommitted))
        await scene.turn()
        assert judged_waves(scene, 0) == [] and len(scene.events(Evaluated)) == 1  # of the untrained model
        scene.pass_by(scene.processor.options.patience - 5.0)
        scene.here(0, 1)
        await scene.turn()
        assert judged_waves(scene, 0) == []
        scene.pass_by(5.0)
        await scene.until(lambda: judged_waves(scene, 0))
        (wave,) = judged_waves(scene, 0)
        assert np.frombuffer(wave.clients, np.uint32).tolist() == [0, 1]

    play(tmp_path, TOY, act, evaluate="devices")


def test_a_model_that_was_judged_before_is_not_judged_again(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        of = scene.processor
        known = Evaluate(0, of.state.server, False, EvalScore(Score(3, 5, 0.5), Tally(1, 2)))
        (fact,) = facts_in(of.evaluations.on_evaluate(known, 0, 1.0, any_sent=False))
        assert isinstance(fact, Evaluated) and (fact.correct, fact.total, fact.unseen) == (3, 5, Tally(1, 2))
        assert fact.clients is None and not judged_waves(scene, 0), "nobody was asked"

    play(tmp_path, TOY, act, evaluate="devices")


def test_samples_that_devices_brought_are_evaluated_by_them(tmp_path: Path) -> None:
    """The server's table has other people under the numbers of these devices."""

    async def act(scene: Scene) -> None:
        of = scene.processor
        scene.here(0, 1)
        await scene.turn()
        await scene.until(lambda: of.evaluations._evaluate is None)
        assert not judged_waves(scene, 0)
        of.served.registry.declared.declare(1, 40, own=True, next_task=None)
        of.evaluations.on_evaluate(Evaluate(0, of.state.server, True), 0, 1.0, any_sent=False)
        assert of.evaluations._share(Evaluate(0, of.state.server, True)) == EvalShare(True, False, True)
        assert of.evaluations._share(Evaluate(0, of.state.server, False)) == EvalShare(True, False, False)

    play(tmp_path, TOY, act, evaluate="server")


def test_scores_of_devices_keep_the_kind_of_their_task():
    request = asked(score_range=score_range(REGRESSION, (1,)))
    record_answer(request, FIRST_EVAL_TASK, said(7, -2_500_000, 4_000_000, 0.5), 1.0)
    fact = evaluation_fact(2.0, 8, None, request, REGRESSION)
    assert (fact.correct, fact.total) == (-2_500_000, 4_000_000)
    assert kind_of_measures(fact.measures) is REGRESSION and np.isnan(list(fact.measures.values())).all()


def test_who_judges():
    assert share_of("server", True) == EvalShare(True, True, False)
    assert share_of("server", False) == EvalShare(True, False, False)
    assert share_of("devices", False) == share_of("devices", True) == EvalShare(False, False, True)
    assert share_of("both", True) == EvalShare(True, False, True)
    assert share_of("both", False) == EvalShare(True, False, False)


def test_the_fact_of_server_and_devices():
    result, own = asked(), ClientScores(np.array([1]), np.array([2]), np.array([3]))
    record_answer(result, FIRST_EVAL_TASK, said(7, 3, 4, 0.5), 1.0)
    central = EvalResult(Score(5, 9, 0.125), own)
    alone = evaluation_fact(2.0, 8, central, None)
    assert (alone.time, alone.version, alone.correct, alone.total, alone.loss) == (2.0, 8, 5, 9, 0.125)
    assert alone.clients is own
    assert evaluation_fact(2.0, 8, replace(central, unseen=Tally(3, 4)), result).unseen == Tally(3, 4)
    both = evaluation_fact(2.0, 8, EvalResult(central.score), result)
    assert (both.correct, both.total) == (5, 9)
    assert both.clients is not None and both.clients.clients.tolist() == [7]
    devices = evaluation_fact(2.0, 8, None, result)
    assert (devices.correct, devices.total, devices.loss) == (3, 4, 0.5)
