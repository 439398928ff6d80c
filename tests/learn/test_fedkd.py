"""FedKD: the teacher stays at home, the student's update goes up at the rank that holds the asked energy."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.aggregation import Aggregate
from fedfleet.core.cost import cost_of
from fedfleet.core.errors import BadInput
from fedfleet.core.events import TaskArrived, TasksSent
from fedfleet.core.part_facts import RunFacts
from fedfleet.core.parts import Loss
from fedfleet.core.passes import Batch, Carry
from fedfleet.core.records import whole_work
from fedfleet.core.trees import tree_nbytes
from fedfleet.learn.composition import with_pass
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.fedkd import low_rank, mutual_loss
from fedfleet.learn.objectives import with_loss
from fedfleet.learn.zoo import fedkd
from tests.learn.digits import task, trained
from tests.learn.facts import FACTS
from tests.worlds import only


def uncompressed(algorithm):
    return with_pass(algorithm, "", lambda p: replace(p, after=()))


def test_at_full_energy_it_is_the_uncompressed_method():
    whole = fedkd(energy_first=1.0, energy_last=1.0, facts=FACTS)
    ends = [trained(a, rounds=3)[1].state.server.params for a in (whole, uncompressed(whole))]
    for name, start in task().init(3).items():
        moved = np.abs(ends[1][name] - start).max()
        assert np.abs(ends[0][name] - ends[1][name]).max() < 1e-3 * moved


def test_the_teacher_never_leaves():
    """What goes up is at most the student's size, has the student's names, and the teachers lie in memory and differ."""
    built = fedkd(facts=FACTS)
    events, end = trained(built, rounds=2, cohort=4)
    student = tree_nbytes(task().init(3))
    up = [e.bytes_up for e in only(TaskArrived, events)]
    down = np.concatenate([e.bytes_down for e in only(TasksSent, events)])
    assert 0 < max(up) < student and (down == student + 4).all()  # and one number, the energy
    assert set(built.fold.like(end.state.server)) == set(task().init(3))
    teachers = [end.memory.slots_of(c)["second"]["1.weight"] for c in end.memory.current]
    assert not np.array_equal(teachers[0], teachers[1])
    assert all(not np.array_equal(t, end.state.server.params["1.weight"]) for t in teachers)


def test_more_energy_never_takes_fewer_bytes():
    sent = {}
    for energy in (0.3, 0.6, 0.9, 0.99, 1.0):
        events, _ = trained(fedkd(energy_first=energy, energy_last=energy, facts=FACTS), rounds=1, cohort=8)
        sent[energy] = [e.bytes_up for e in sorted(only(TaskArrived, events), key=lambda e: e.client)]
    columns = np.array(list(sent.values()))
    assert (np.diff(columns, axis=0) >= 0).all() and (columns[0] < columns[-1]).all()


def test_energy_grows_from_commit_to_commit_and_stops_at_the_last():
    built = fedkd(energy_first=0.5, energy_last=0.9, facts=RunFacts(8, 3, 4))
    server = built.init({"w": np.zeros((2, 2), np.float32)})
    seen = []
    for _ in range(6):
        seen.append(float(built.offer(server, 0, {}).extra["energy"][0]))
        server = built.apply(server, Aggregate({"w": np.zeros((2, 2), np.float32)}, 1.0, 1))
    assert seen == pytest.approx([0.6, 0.7, 0.8, 0.9, 0.9, 0.9])


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 9), st.floats(0.05, 1.0), st.integers(0, 10**6), st.sampled_from([(), (2, 2)]))
def test_each_matrix_keeps_its_energy_at_the_least_rank(rows, width, energy, seed, kernel):
    stack = torch.from_numpy(np.random.default_rng(seed).normal(size=(3, rows, width, *kernel)))
    near, numbers = low_rank(stack, torch.full((3, 1), energy, dtype=torch.float64))
    for i in range(3):
        matrix, result = stack[i].flatten(1).numpy(), near[i].flatten(1).numpy()
        values = np.linalg.svd(matrix, compute_uv=False) ** 2
        rank = int((np.cumsum(values) < energy * values.sum() * (1 - 1e-9)).sum()) + 1
        whole = matrix.size
        assert numbers[i] == min(rank * sum(matrix.shape), whole)
        if numbers[i] == whole:
            assert np.array_equal(result, matrix)
        else:
            assert np.linalg.matrix_rank(result, tol=1e-8) == rank
            assert np.square(matrix - result).sum() == pytest.approx(values[rank:].sum(), abs=1e-8)


def test_nothing_moved_is_sent_as_nothing():
    near, _ = low_rank(torch.zeros(2, 3, 4), torch.full((2, 1), 0.9))
    assert not near.any() and torch.isfinite(near).all()


def test_the_loss_by_hand():
    logits = {"s": torch.tensor([[2.0, 0.0], [0.0, 1.0]]), "t": torch.tensor([[1.0, 1.0], [3.0, 0.0]])}
    batch = Batch(None, torch.tensor([0, 1]), lambda v: v.reshape(1, -1).mean(1), lambda f, o: f(o, None))
    result = mutual_loss(lambda params, x: logits[params["which"]], {"which": "s"}, {"which": "t"}, Carry({}, {}), batch)
    p = {k: np.exp(v.numpy()) / np.exp(v.numpy()).sum(1, keepdims=True) for k, v in logits.items()}
    known = sum(-np.log(q[[0, 1], [0, 1]]).mean() for q in p.values())
    kl = sum((p[a] * np.log(p[a] / p[b])).sum(1).mean() for a, b in (("s", "t"), ("t", "s")))
    assert float(result[0]) == pytest.approx(known + kl / known, rel=1e-6)


def test_two_models_cost_twice_the_samples():
    server_of = {a.name: a.init({"w": np.zeros((4, 4), np.float32)}) for a in (fedavg(), fedkd(facts=FACTS))}
    asked, samples = whole_work(np.arange(2)), np.array([7, 20])
    one, two = (cost_of(a, server_of[a.name], asked, samples) for a in (fedavg(), fedkd(facts=FACTS)))
    assert two.samples.tolist() == (2 * one.samples).tolist()


def test_it_takes_no_loss_of_somebodys_own():
    with pytest.raises(BadInput, match="its own objective"):
        with_loss(fedkd(facts=FACTS), Loss(lambda outputs, labels: outputs))


def test_a_client_that_diverged_spoils_nobody_elses_matrices():
    rng = np.random.default_rng(0)
    stack = torch.from_numpy(rng.normal(size=(3, 6, 4)).astype(np.float32))
    alone, _ = low_rank(stack, torch.tensor([0.9] * 3).unsqueeze(1))
    stack[1, 2, 3] = torch.nan
    result, _ = low_rank(stack, torch.tensor([0.9] * 3).unsqueeze(1))
    assert torch.equal(result[[0, 2]], alone[[0, 2]]) and torch.isnan(result[1]).any()
