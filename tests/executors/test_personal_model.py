"""The model that a client uses: its own version, tuned on its own rows where the algorithm asks for that."""

from dataclasses import replace

import numpy as np

from fedfleet.core.parts import Executor
from fedfleet.core.records import Report
from fedfleet.executors.personal_model import pass_of_task, personal_model, share_of_rows, tune_models, tuning_job
from fedfleet.learn.zoo import fedavg, ft

MODEL = {"w": np.zeros(2, np.float32), "n": np.array([3])}
ROWS = np.arange(4)


def test_a_negative_task_trains_what_tunes_the_model():
    algorithm = ft(tune_epochs=3)
    assert pass_of_task(algorithm, 0, -1, {}) == algorithm.tune(0) != algorithm.local(0, {})
    assert pass_of_task(algorithm, 0, 2, {}) == algorithm.local(0, {})
    assert pass_of_task(fedavg(), 0, -1, {}) == fedavg().local(0, {})


def test_a_share_of_the_rows_is_rounded_up():
    assert share_of_rows(ROWS, 0.3).tolist() == [0, 1]
    assert share_of_rows(ROWS, 1.0) is ROWS


def test_memory_is_read_only_where_the_algorithm_makes_models_personal():
    assert personal_model(fedavg(), MODEL, lambda: 1 / 0) is MODEL
    own = replace(fedavg(), personal=lambda params, memory: {**params, **memory["kept"]})
    assert personal_model(own, MODEL, lambda: {"kept": {"w": np.ones(2)}})["w"].tolist() == [1.0, 1.0]


def test_models_are_tuned_together_and_integers_stay():
    trained = []

    def train(jobs):
        trained.append([job.client for job in jobs])
        for job in jobs:
            yield Report(job.task, job.client, {"w": np.full(2, job.client + 1.0, np.float32), "n": np.array([9])}, 1.0, {})

    algorithm, execute = ft(), Executor("toy", train, None)
    jobs = [tuning_job(algorithm, c, c, 7, MODEL, ROWS if c != 1 else ROWS[:0]) for c in range(3)]
    assert [job and job.task for job in jobs] == [-1, None, -3]
    one, untrained, three = tune_models(execute, [MODEL] * 3, jobs)
    assert trained == [[0, 2]] and untrained is MODEL
    assert (one["w"].tolist(), three["w"].tolist(), one["n"].tolist()) == ([1.0, 1.0], [3.0, 3.0], [3])
    assert tune_models(execute, [MODEL], [None]) == [MODEL] and len(trained) == 1
    assert tuning_job(fedavg(), 0, 0, 7, MODEL, ROWS) is None
