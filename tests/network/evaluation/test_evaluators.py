"""A judge in a process of its own says what one in this process says, survives its own death, and is never in the way.

The process of the judge: it loads no gRPC, answers a question after the other, and ends with its socket.
"""

import asyncio
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.core.commands import Evaluate
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.records import ClientScores, Score, ServerState, Tally
from fedfleet.core.tensor_format import pack_tree
from fedfleet.executors.gather import evaluate
from fedfleet.executors.stacked.form_choice import Form
from fedfleet.network.evaluation.evaluators import (
    LENGTHS,
    EvalContext,
    EvalResult,
    ProcessEvaluator,
    decode_result,
    encode_message,
    encode_result,
    evaluate_model,
)
from fedfleet.store.client_memory import ClientMemory
from tests.network.evaluation import courts
from tests.network.evaluation.courts import court
from tests.network.evaluation.thread import ThreadEvaluator

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
MODEL = {"w": np.array([0.1, 2.5, 1e-8, 7.0], np.float32)}


@pytest.fixture(autouse=True)
def found_by_children(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def builder(name):
    return f"tests.network.evaluation.courts:{name}"


def same(a, b):
    assert (a.score.correct, a.score.total) == (b.score.correct, b.score.total)
    assert np.float64(a.score.loss).tobytes() == np.float64(b.score.loss).tobytes()
    assert (a.clients is None) == (b.clients is None)
    if a.clients is not None:
        for name in ("clients", "correct", "total"):
            mine, other = getattr(a.clients, name), getattr(b.clients, name)
            assert mine.dtype == other.dtype and mine.tolist() == other.tolist()


def judging(work, facts, folder, name):
    """Run `work(judge)` with a judge that is closed afterwards."""

    async def main():
        judge = await ProcessEvaluator.start(facts, folder, builder(name))
        try:
            return await work(judge)
        finally:
            await judge.close()

    return asyncio.run(main())


def gone(pid, seconds=60.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def test_it_says_what_a_judge_in_this_process_says(tmp_path):
    async def work(judge):
        return [await judge.evaluate(v, MODEL, clients) for v, clients in ((1, False), (2, True))]

    for result, clients in zip(judging(work, {}, tmp_path, "court"), (False, True), strict=True):
        same(result, evaluate_model(courts.court({}), 1, MODEL, clients))
    assert list(tmp_path.iterdir()) == []  # neither models nor words are left


@pytest.mark.parametrize("loss", ["nan", "inf", "-inf"])
def test_a_loss_that_is_no_number_crosses_too(tmp_path, loss):
    result = judging(lambda judge: judge.evaluate(1, MODEL, False), {"loss": loss}, tmp_path, "court")
    same(result, evaluate_model(courts.court({"loss": loss}), 1, MODEL, False))


def test_a_thread_says_the_same():
    async def main():
        judge = ThreadEvaluator(courts.court({}))
        try:
            return await judge.evaluate(1, MODEL, True)
        finally:
            await judge.close()

    same(asyncio.run(main()), evaluate_model(courts.court({}), 1, MODEL, True))


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_slow_model_never_blocks_the_loop(tmp_path, kind):
    facts = {"seconds": 0.4}

    async def main():
        if kind == "process":
            judge = await ProcessEvaluator.start(facts, tmp_path, builder("slow"))
        else:
            judge = ThreadEvaluator(courts.slow(facts))
        work = asyncio.create_task(judge.evaluate(1, MODEL, False))
        gaps = []
        while not work.done():
            start = time.perf_counter()
            await asyncio.sleep(0.005)
            gaps.append(time.perf_counter() - start)
        await work
        await judge.close()
        return gaps

    gaps = asyncio.run(main())
    assert len(gaps) > 20
    assert sorted(gaps)[len(gaps) // 2] < 0.05


def test_a_judge_that_dies_is_started_again_and_asked_again(tmp_path):
    count = tmp_path / "count"
    count.touch()
    result = judging(lambda judge: judge.evaluate(1, MODEL, True), {"count": str(count), "deaths": 2}, tmp_path, "dying")
    same(result, evaluate_model(courts.court({}), 1, MODEL, True))
    assert count.stat().st_size == 2


def test_a_judge_that_always_dies_ends_the_run_with_its_last_words(tmp_path):
    count = tmp_path / "count"
    count.touch()
    facts = {"count": str(count), "deaths": 99}
    with pytest.raises(RunFailed, match=r"died 3 times on version 7 \(signal SIGKILL: no memory left\).*resume"):
        judging(lambda judge: judge.evaluate(7, MODEL, False), facts, tmp_path, "dying")
    assert count.stat().st_size == 3
    assert [p.name for p in tmp_path.iterdir()] == ["count"]


def test_one_that_was_killed_between_models_is_replaced(tmp_path):
    async def work(judge):
        await judge.evaluate(1, MODEL, False)
        first = judge.pid
        os.kill(first, signal.SIGKILL)
        again = await judge.evaluate(2, MODEL, False)
        return first, judge.pid, again

    first, then, again = judging(work, {}, tmp_path, "court")
    assert first != then
    same(again, evaluate_model(courts.court({}), 2, MODEL, False))


def test_what_fails_inside_is_said_once_and_the_judge_goes_on(tmp_path):
    async def work(judge):
        with pytest.raises(RunFailed, match="ArithmeticError: a negative model"):
            await judge.evaluate(1, {"w": -MODEL["w"]}, False)
        return judge.pid, await judge.evaluate(2, MODEL, False), judge.pid

    before, result, after = judging(work, {}, tmp_path, "failing")
    assert before == after
    same(result, evaluate_model(courts.court({}), 2, MODEL, False))


def test_what_cannot_be_built_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="the task 'x' is unknown"):
        judging(lambda judge: judge.evaluate(1, MODEL, False), {}, tmp_path, "unbuilt")


def test_models_that_are_asked_together_are_judged_one_by_one(tmp_path):
    models = [{"w": MODEL["w"] * k} for k in range(6)]

    async def work(judge):
        return await asyncio.gather(*(judge.evaluate(v, m, True) for v, m in enumerate(models)))

    for result, model in zip(judging(work, {}, tmp_path, "court"), models, strict=True):
        same(result, evaluate_model(courts.court({}), 0, model, True))


def test_a_question_that_is_given_up_does_not_answer_the_next_one(tmp_path):
    other = {"w": MODEL["w"] * 3}

    async def work(judge):
        first = asyncio.create_task(judge.evaluate(1, MODEL, True))
        await asyncio.sleep(0.6)
        first.cancel()
        return await judge.evaluate(2, other, True)

    same(judging(work, {"seconds": 0.5}, tmp_path, "slow"), evaluate_model(courts.court({}), 2, other, True))


def test_it_ends_when_it_is_closed_even_in_the_midst_of_a_model(tmp_path):
    async def main():
        judge = await ProcessEvaluator.start({"seconds": 60}, tmp_path, builder("slow"))
        work, pid = asyncio.create_task(judge.evaluate(1, MODEL, False)), judge.pid
        await asyncio.sleep(0.5)
        start = time.perf_counter()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await judge.close()
        return pid, time.perf_counter() - start

    pid, seconds = asyncio.run(main())
    assert gone(pid)
    assert seconds < 30  # it did not wait for the model
    assert list(tmp_path.iterdir()) == []


PARENT = """
import asyncio, sys
import numpy as np
from pathlib import Path
from fedfleet.executors.stacked.form_choice import Form
from fedfleet.network.evaluation.evaluators import ProcessEvaluator

async def main():
    judge = await ProcessEvaluator.start({"seconds": 60}, Path(sys.argv[1]), "tests.network.evaluation.courts:slow")
    print(judge.pid, flush=True)
    await judge.evaluate(1, {"w": np.ones(4, np.float32)}, False)

asyncio.run(main())
"""


def test_it_dies_with_its_server_even_in_the_midst_of_a_model(tmp_path):
    with subprocess.Popen([sys.executable, "-c", PARENT, tmp_path], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.7)  # it sleeps over its model by now, or is about to
        parent.send_signal(signal.SIGKILL)
    assert gone(pid)


def test_a_full_folder_is_one_sentence(tmp_path):
    async def work(judge):
        judge.folder = tmp_path / "not there"
        return await judge.evaluate(1, MODEL, False)

    with pytest.raises(RunFailed, match=r"cannot be written to .*free some space"):
        judging(work, {}, tmp_path, "court")


SPEC = {
    "task": {"use": "digits_logreg"},
    "world": {"clients": 6},
    "algorithm": {"use": "fedavg"},
    "pace": {"use": "readiness", "cohort": 2},
    "stop": {"rounds": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["inline", "stacked"])
def test_a_real_task_is_judged_to_the_same_bits(tmp_path, kernel):
    spec = resolve({**SPEC, "run": {"execute": kernel}})
    setup = assemble(spec)
    facts = {"spec": spec.toml(), "form": "merged", "threads": 1}

    async def main():
        judge = await ProcessEvaluator.start(facts, tmp_path)
        try:
            return await judge.evaluate(1, setup.plan.params, True)
        finally:
            await judge.close()

    result = asyncio.run(main())
    here = setup.executor(Form("merged", 1))
    same(result, evaluate_model(EvalContext(setup.plan, setup.world, here), 1, setup.plan.params, True))
    assert result.score.total == len(setup.world.data.holdout)


COUNTS = st.integers(0, 2**53)


def across(number, result):
    data = encode_result(number, result)
    head, payload = LENGTHS.unpack(data[: LENGTHS.size])
    assert len(data) == LENGTHS.size + head + payload
    said = json.loads(data[LENGTHS.size : LENGTHS.size + head])
    assert said["number"] == number
    return decode_result(said, data[LENGTHS.size + head :])


@given(correct=COUNTS, total=COUNTS, loss=st.floats(), rows=st.lists(st.tuples(COUNTS, COUNTS, COUNTS), max_size=5))
def test_scores_survive(correct, total, loss, rows):
    columns = np.array(rows, np.int64).reshape(-1, 3)
    result = across(5, EvalResult(Score(correct, total, loss), ClientScores(*(columns[:, i].copy() for i in range(3)))))
    assert (result.score.correct, result.score.total) == (correct, total)
    assert result.score.loss == loss or (math.isnan(loss) and math.isnan(result.score.loss))
    assert result.clients is not None and result.clients.clients.dtype == np.int64
    assert np.stack([result.clients.clients, result.clients.correct, result.clients.total], 1).tolist() == columns.tolist()


def test_people_held_out_survive_with_and_without_clients():
    one = ClientScores(*(np.array([3]) for _ in range(3)))
    for clients in (None, one):
        assert across(1, EvalResult(Score(1, 2, 0.5), clients, Tally(0, 9))).unseen == Tally(0, 9)
        assert across(1, EvalResult(Score(1, 2, 0.5), clients)).unseen is None


def test_nobody_and_nothing_are_told_apart():
    empty = np.zeros(0, np.int64)
    assert across(1, EvalResult(Score(1, 2, 0.5))).clients is None
    nobody = across(1, EvalResult(Score(1, 2, 0.5), ClientScores(empty, empty, empty))).clients
    assert nobody is not None and nobody.clients.tolist() == []


@pytest.mark.parametrize("clients", [False, True])
def test_it_is_what_a_simulation_finds(clients):
    parts, model = court({}), {"w": np.arange(4, dtype=np.float32)}
    command = Evaluate(3, ServerState(model), clients)
    fact = evaluate(parts.plan, parts.world, parts.execute, ClientMemory(), command, 1.0)
    result = evaluate_model(parts, 3, model, clients)
    assert (result.score.correct, result.score.total, result.score.loss) == (fact.correct, fact.total, fact.loss)
    assert (result.clients is not None) == clients
    if fact.clients is not None and result.clients is not None:
        assert result.clients.correct.tolist() == fact.clients.correct.tolist()


SMALL_MODEL = {"w": np.arange(4, dtype=np.float32)}


@pytest.fixture
def child(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    ours, theirs = socket.socketpair()
    words = [sys.executable, "-m", "fedfleet.network.evaluation.evaluators", str(theirs.fileno())]
    builder = "tests.network.evaluation.courts:court"
    with theirs:
        process = subprocess.Popen([*words, builder], pass_fds=[theirs.fileno()], stderr=subprocess.PIPE)
    with process, ours:
        yield ours, process
        process.kill()


def read(line):
    head, payload = LENGTHS.unpack(line.recv(LENGTHS.size, socket.MSG_WAITALL))
    said = json.loads(line.recv(head, socket.MSG_WAITALL))
    return said, line.recv(payload, socket.MSG_WAITALL) if payload else b""


def test_questions_in_pieces_are_answered_and_it_ends_with_its_socket(child, tmp_path):
    line, process = child
    path = tmp_path / "model"
    path.write_bytes(pack_tree(SMALL_MODEL))
    asked = encode_message({}) + encode_message({"number": 4, "version": 1, "path": str(path), "clients": True}, b"ignored")
    for byte in asked:
        line.sendall(bytes([byte]))
    assert read(line)[0] == {"number": -1}
    result = decode_result(*read(line))
    assert result.score == evaluate_model(court({}), 1, SMALL_MODEL, True).score
    path.write_bytes(b"no model")
    line.sendall(encode_message({"number": 5, "version": 1, "path": str(path), "clients": False}))
    said, _ = read(line)
    assert said["number"] == 5 and "safetensors" in said["failed"] and said["kind"] == "Refused"
    line.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""


def test_half_a_question_and_then_nothing_ends_it(child):
    line, process = child
    line.sendall(encode_message({})[:3])
    line.close()
    assert process.wait(60) == 0


def test_it_needs_neither_grpc_nor_torch_by_itself():
    code = "import sys, fedfleet.network.evaluation.evaluators; print([m for m in ('grpc', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
