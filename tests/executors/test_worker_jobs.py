"""Parcels, without anybody who carries them: jobs survive the trip, failures are named."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.parts import Job, Offer
from fedfleet.executors.worker_jobs import (
    Recipe,
    TrialParcel,
    copy_report,
    rebuild_parts,
    score_chunk,
    to_parcel,
    train_chunk,
    versions,
    without_encoder,
)
from fedfleet.testing.toys import consensus, consensus_start, opaque_executor
from tests.executors.kits import misled


def toy_jobs(n, offered=None):
    """Jobs of the toy, each of its own client."""
    local, rows = consensus(remembers=True).local(0, {}), np.arange(3)
    return [
        Job(
            task=10 + c,
            client=c,
            key=c + 1,
            seed=1,
            offer=Offer(offered or consensus_start()),
            local=local,
            rows=rows,
            memory={"toy": {"count": np.full(1, 4.0)}},
        )
        for c in range(n)
    ]


def same(a, b):
    """Are these reports equal to the last bit?"""
    assert (a.task, a.client, a.weight, a.stats) == (b.task, b.client, b.weight, b.stats)
    for one, other in ((a.update, b.update), (a.memory["toy"], b.memory["toy"])):
        assert one.keys() == other.keys()
        assert all(one[n].tobytes() == other[n].tobytes() for n in one)


def test_a_job_survives_the_trip():
    jobs = toy_jobs(3)
    parcels = pickle.loads(pickle.dumps([to_parcel(job) for job in jobs]))
    answer = pickle.loads(pickle.dumps(train_chunk(misled(), parcels, [0, 0, 0], Offer(consensus_start()))))
    assert answer.failure == ""
    for result, wanted in zip(answer.results, opaque_executor().train(jobs), strict=True):
        same(copy_report(result), wanted)


def test_a_process_rebuilds_once():
    assert rebuild_parts(misled()) is rebuild_parts(misled())


def test_what_raises_is_named():
    answer = train_chunk(misled(raises=1), [to_parcel(job) for job in toy_jobs(3)], [0, 0, 0], Offer(consensus_start()))
    assert answer.failure == "client 1, task 11: KeyError: 'out of luck'"
    assert "Traceback" in answer.trace


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (Recipe("tests.executors.kits:kit", "{}\n[algorithm]\nuse = 'fedavgg'"), "did you mean 'fedavg'"),
        (Recipe("tests.executors.nowhere:kit", ""), "ModuleNotFoundError"),
        (replace(misled(), versions=(versions()[0], ("numpy", "0.1"), versions()[2])), "the run began with 0.1"),
    ],
)
def test_what_cannot_be_rebuilt_is_said(bad, says):
    for answer in (train_chunk(bad, [], []), score_chunk(bad, [TrialParcel(0, np.arange(2))], [0], consensus_start())):
        assert answer.failure.startswith("a worker could not rebuild the spec: ")
        assert says in answer.failure


def test_an_offer_travels_without_the_code_that_encodes_it():
    plain = Offer(consensus_start())
    assert without_encoder(plain) is plain
    coded = Offer(plain.params, {"c": np.ones(2)}, 17.0, lambda: b"")
    result = pickle.loads(pickle.dumps(without_encoder(coded)))
    assert result.nbytes == 17.0 and result.encoded is None and result.extra["c"].tolist() == [1.0, 1.0]
