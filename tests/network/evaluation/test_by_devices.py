"""Devices that judge: whatever comes in whatever order, the first answer in time of each counts, and everybody is counted once."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.kinds import CLASSIFICATION, MULTILABEL, NEXT_TOKEN, REGRESSION, score_range
from fedfleet.core.records import Score, ServerState
from fedfleet.network.evaluation.by_devices import (
    Answer,
    AnswerVerdict,
    EvalRequest,
    RequestKind,
    ResponseCounts,
    answer_fault,
    client_scores,
    first_eval_task,
    is_finished,
    overall_score,
    owns_task,
    probe_fact,
    record_answer,
    record_decline,
    response_counts,
    response_summary,
)
from fedfleet.network.protocol import fleet_pb2
from fedfleet.network.protocol.frames import FIRST_EVAL_TASK, is_eval_task

SERVER = ServerState({})
CLIENTS = np.array([7, 3, 11, 0], np.int64)


def asked(kind=RequestKind.EVALUATE, clients=CLIENTS, **more):
    return EvalRequest(kind, clients, 10.0, SERVER, **more)


def said(client, correct=3, total=4, loss=0.5):
    return Answer(client, correct, total, loss)


def test_kinds_are_those_of_the_wire():
    assert [(int(k), k.name) for k in RequestKind] == [(fleet_pb2.Kind.Value(k.name), k.name) for k in RequestKind]


@given(st.data())
def test_everybody_is_counted_once_whatever_comes(data):
    """Any answers, refusals and repetitions at any time: as if only the first in time of each device had come."""
    results, expected = asked(), dict[int, tuple]()
    moments = sorted(data.draw(st.lists(st.floats(0, 20), max_size=25)))
    for now in moments:
        i, right = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 4))
        task, client = FIRST_EVAL_TASK + i, int(CLIENTS[i])
        if data.draw(st.booleans()):
            verdict, mine = record_answer(results, task, said(client, right), now), (right, 4)
        else:
            verdict, mine = record_decline(results, task, client, now), None
        if i in expected:
            assert verdict is AnswerVerdict.DUPLICATE
        elif now >= 10.0:
            assert verdict is AnswerVerdict.LATE
        else:
            assert verdict is AnswerVerdict.ACCEPTED
            expected[i] = mine
    came = {int(CLIENTS[i]): v for i, v in expected.items() if v is not None}
    result = client_scores(results)
    assert result.clients.tolist() == sorted(came)
    assert list(zip(result.correct.tolist(), result.total.tolist(), strict=True)) == [came[c] for c in sorted(came)]
    number = response_counts(results)
    assert number.answered == len(came) and number.declined == len(expected) - len(came)
    assert number.answered + number.declined + number.silent == len(CLIENTS)
    assert number.late <= number.silent
    assert is_finished(results, 0.0) == (len(expected) == len(CLIENTS))
    assert is_finished(results, 10.0)


@given(st.permutations(range(4)))
def test_the_order_of_answers_changes_nothing(order):
    result = asked()
    for i in order:
        assert record_answer(result, FIRST_EVAL_TASK + i, said(int(CLIENTS[i]), i, 10 + i, i / 3), 1.0) is AnswerVerdict.ACCEPTED
    assert client_scores(result).clients.tolist() == [0, 3, 7, 11]
    assert client_scores(result).correct.tolist() == [3, 1, 0, 2]
    assert client_scores(result).total.tolist() == [13, 11, 10, 12]
    assert overall_score(result) == Score(6, 46, (11 * (1 / 3) + 12 * (2 / 3) + 13 * 1.0) / 46)


@pytest.mark.parametrize(("task", "client"), [(FIRST_EVAL_TASK - 1, 7), (FIRST_EVAL_TASK + 4, 7), (FIRST_EVAL_TASK, 3), (0, 7)])
def test_answers_of_others_or_to_other_tasks_are_strays(task, client):
    result = asked()
    assert record_answer(result, task, said(client), 1.0) is AnswerVerdict.FOREIGN
    assert record_decline(result, task, client, 1.0) is AnswerVerdict.FOREIGN
    assert response_counts(result) == ResponseCounts(0, 0, 4)


@pytest.mark.parametrize(("correct", "total"), [(5, 4), (-1, 4), (0, 0), (0, -1), (0, 21), (2, 2**60)])
def test_numbers_that_cannot_be_are_wrong_and_a_right_answer_may_follow(correct, total):
    result = asked(max_samples=np.full(4, 20, np.int64))
    assert answer_fault(result, FIRST_EVAL_TASK, said(7, correct, total)) is not None
    assert record_answer(result, FIRST_EVAL_TASK, said(7, correct, total), 1.0) is AnswerVerdict.INVALID
    assert response_counts(result).silent == 4
    assert record_answer(result, FIRST_EVAL_TASK, said(7, 20, 20), 2.0) is AnswerVerdict.ACCEPTED


def test_a_score_on_more_samples_than_count_is_one_on_so_many_with_the_same_accuracy():
    limits = {"max_samples": np.array([10, 1 << 31, 10]), "counted": np.array([10, 100, 10])}
    request = asked(clients=np.arange(3), **limits)
    for client, (correct, total) in enumerate(((5, 10), (3 << 29, 1 << 31), (7, 9))):
        verdict = record_answer(request, FIRST_EVAL_TASK + client, said(client, correct, total), 1.0)
        assert verdict is AnswerVerdict.ACCEPTED
    assert request.correct.tolist() == [5, 75, 7] and request.total.tolist() == [10, 100, 9]
    assert overall_score(request).total == 119


def test_without_a_limit_samples_are_bounded_nevertheless():
    assert record_answer(asked(), FIRST_EVAL_TASK, said(7, 0, 2**60), 1.0) is AnswerVerdict.INVALID


def test_late_answers_are_counted_once_and_change_nothing():
    result = asked()
    for _ in range(3):
        assert record_answer(result, FIRST_EVAL_TASK, said(7), 10.0) is AnswerVerdict.LATE
    assert response_counts(result) == ResponseCounts(0, 0, 4, 1)
    assert client_scores(result).clients.tolist() == []


def test_a_probe_answers_in_the_order_in_which_it_was_asked_with_nan_for_the_rest():
    result = asked(RequestKind.PROBE)
    record_answer(result, FIRST_EVAL_TASK + 2, Answer(11, loss=0.25), 1.0)
    record_answer(result, FIRST_EVAL_TASK + 0, Answer(7, loss=math.inf), 1.0)
    record_decline(result, FIRST_EVAL_TASK + 1, 3, 1.0)
    fact = probe_fact(result, "loss", 4.0)
    assert (fact.time, fact.stat, fact.clients.tolist()) == (4.0, "loss", CLIENTS.tolist())
    assert np.isnan(fact.values).tolist() == [True, True, False, True]
    assert fact.values[2] == 0.25


def test_a_loss_that_is_no_number_is_left_out_of_the_mean_alone():
    result = asked()
    record_answer(result, FIRST_EVAL_TASK, said(7, 1, 2, math.nan), 1.0)
    record_answer(result, FIRST_EVAL_TASK + 1, said(3, 2, 2, 0.5), 1.0)
    assert overall_score(result) == Score(3, 4, 0.5)
    assert math.isnan(overall_score(asked()).loss)


def test_tasks_of_judging_are_none_of_training_and_of_one_start_alone():
    assert not is_eval_task(FIRST_EVAL_TASK - 1) and is_eval_task(FIRST_EVAL_TASK)
    early, late = first_eval_task(1.7e9), first_eval_task(1.7e9 + 1)
    assert early + 1_000_000 < late < 2**62
    result = asked(first=early)
    assert owns_task(result, early + 3) and not owns_task(result, early + 4) and not owns_task(result, FIRST_EVAL_TASK)


def test_the_remark_says_who_answered():
    result = asked(version=12)
    record_answer(result, FIRST_EVAL_TASK, said(7), 1.0)
    record_decline(result, FIRST_EVAL_TASK + 1, 3, 1.0)
    assert response_summary(result) == "version 12 was evaluated by 1 of 4 devices: 1 declined, 2 did not answer"


def test_a_hundred_thousand_answers_are_taken_one_by_one_in_little_time():
    """Answers must not cost more the more there are: a record that is copied for each would take minutes here."""
    n = 20_000
    result = asked(clients=np.arange(n))
    for i in range(n):
        record_answer(result, FIRST_EVAL_TASK + i, said(i), 1.0)
    assert is_finished(result, 1.0) and response_counts(result) == ResponseCounts(n, 0, 0)


@pytest.mark.parametrize(
    ("kind", "shape", "fits", "wrong"),
    [
        (CLASSIFICATION, (), (4, 5), (-1, 5)),
        (REGRESSION, (2,), (-9_000_000_000, 10_000_000), (1, 10_000_001)),
        (REGRESSION, (1,), (4_000_000, 5_000_000), (-5_000_000_001, 5_000_000)),
        (MULTILABEL, (3,), (24, 30), (24, 31)),
        (NEXT_TOKEN, (8,), (39, 40), (41, 40)),
    ],
)
def test_a_score_is_bounded_by_its_kind(kind, shape, fits, wrong):
    """Of a client with five test samples."""
    for (correct, total), accepted in ((fits, True), (wrong, False)):
        request = asked(max_samples=np.full(4, 5), score_range=score_range(kind, shape))
        verdict = record_answer(request, FIRST_EVAL_TASK, said(7, correct, total), 1.0)
        assert verdict is (AnswerVerdict.ACCEPTED if accepted else AnswerVerdict.INVALID)


def test_a_score_counts_on_so_many_samples_at_most_whatever_its_kind():
    request = asked(max_samples=np.full(4, 50), counted=np.full(4, 5), score_range=score_range(REGRESSION, (1,)))
    record_answer(request, FIRST_EVAL_TASK, said(7, -20_000_000, 40_000_000), 1.0)
    assert (int(request.correct[0]), int(request.total[0])) == (-2_500_000, 5_000_000)
