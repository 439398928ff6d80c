"""What a run says loudly: that it made no model, that it failed often, that reports were refused, that nothing was learnt."""

from dataclasses import replace

import numpy as np

from fedfleet.core.events import Evaluated, ModelCommitted, ReportRejected, RoundFailed
from fedfleet.core.records import ClientScores
from fedfleet.measure.warnings import failed_rounds, warnings


def evaluated(version, correct):
    return Evaluated(float(version), version, correct, 100, 1.0)


def committed(version):
    return ModelCommitted(float(version), version, version, "hash", 5)


def test_a_healthy_run_says_nothing():
    assert warnings([evaluated(0, 10), committed(1), evaluated(1, 50)]) == []


def test_no_model_is_the_first_thing_to_hear_with_the_reason():
    log = [evaluated(0, 10)] + [RoundFailed(float(i), i, "no report could be folded") for i in range(3)]
    log += [RoundFailed(3.0, 3, "fewer than 2 clients could be selected")]
    assert failed_rounds(log) == {"no report could be folded": 3, "fewer than 2 clients could be selected": 1}
    assert warnings(log) == ["no model was made: all 4 rounds failed (most often: no report could be folded, 3 times)"]


def test_many_failures_and_refusals_are_counted():
    log = [committed(1), RoundFailed(2.0, 1, "late"), RoundFailed(3.0, 2, "late"), evaluated(0, 10), evaluated(1, 60)]
    log += [ReportRejected(1.0, i, i % 2, f"client {i % 2}: leaf 'w' is not finite") for i in range(4)]
    assert warnings(log) == [
        "2 of 3 rounds failed (late)",
        "4 reports of 2 clients were refused (leaf 'w' is not finite)",
    ]


def test_clients_that_learnt_for_themselves_have_learnt():
    own = ClientScores(np.array([0, 1]), np.array([8, 9]), np.array([10, 10]))
    last = replace(evaluated(1, 10), clients=own)
    assert warnings([evaluated(0, 10), committed(1), evaluated(1, 10), last]) == []


def test_a_run_that_learnt_nothing_says_so():
    log = [evaluated(0, 10), committed(1), evaluated(1, 10), committed(2), evaluated(2, 9)]
    assert "nothing was learnt: accuracy began at 10.0 % and never rose above 10.0 %" in warnings(log)[0]
