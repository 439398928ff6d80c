"""What crosses between server and judge comes back to the last bit."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.commands import Evaluate
from fedfleet.core.records import ClientScores, Score, ServerState, Tally
from fedfleet.executors.gather import evaluate
from fedfleet.network.evaluation.results import (
    LENGTHS,
    EvalResult,
    decode_head,
    decode_result,
    encode_result,
    evaluate_model,
)
from fedfleet.store.client_memory import ClientMemory
from tests.network.evaluation.courts import court

COUNTS = st.integers(0, 2**53)


def across(number, result):
    data = encode_result(number, result)
    head, payload = LENGTHS.unpack(data[: LENGTHS.size])
    assert len(data) == LENGTHS.size + head + payload
    said = decode_head(data[LENGTHS.size : LENGTHS.size + head])
    assert said["number"] == number
    return decode_result(said, data[LENGTHS.size + head :])


@given(correct=COUNTS, total=COUNTS, loss=st.floats(), rows=st.lists(st.tuples(COUNTS, COUNTS, COUNTS), max_size=5))
def test_scores_survive(correct, total, loss, rows):
    columns = np.array(rows, np.int64).reshape(-1, 3)
    result = across(5, EvalResult(Score(correct, total, loss), ClientScores(*(columns[:, i].copy() for i in range(3)))))
    assert (result.score.correct, result.score.total) == (correct, total)
    assert result.score.loss == loss or (math.isnan(loss) and math.isnan(result.score.loss))
    assert result.clients is not None and result.clients.clients.dtype == np.int64
    assert (
        np.stack([result.clients.clients, result.clients.correct, result.clients.total], 1).tolist() == columns.tolist()
    )


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
