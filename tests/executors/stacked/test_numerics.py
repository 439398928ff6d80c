"""Whether neighbours decide a client's bits: what is said of tasks, what a trial finds, and what keeps stacks apart."""

from dataclasses import replace

import pytest
from torch import nn

from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.executors.client_half import prepare_job
from fedfleet.executors.stacked import numerics
from fedfleet.executors.stacked.numerics import is_size_independent, layout_of, trial_passes
from fedfleet.executors.stacked.placement import open_place
from fedfleet.learn.optimisers import sgd
from fedfleet.tasks.digits import digits_cnn, digits_logreg, digits_mlp
from tests.executors.cohorts import Odd, convolutions, dense, jobs_with, small_task

LOCAL = LocalPass(sgd(), BatchPlan(5, epochs=1), rate=0.1)


def place(task, form="merged"):
    return open_place(task, device="cpu", threads=1, form=form, tf32=False, graphs=False)


def group(task, sizes, local=LOCAL):
    return [prepare_job(job) for job in jobs_with(task, local, sizes)]


def test_only_what_is_shown_to_keep_its_bits_is_free():
    assert is_size_independent("merged", digits_mlp()(0)) and is_size_independent("merged", digits_logreg()(0))
    assert is_size_independent("merged", digits_mlp(hidden=32)(0))
    assert not is_size_independent("merged", digits_mlp(hidden=7)(0)), "rows of seven numbers lie anywhere"
    assert not is_size_independent("merged", digits_cnn()(0)), "convolutions"
    assert not is_size_independent("merged", small_task(convolutions(lambda: nn.BatchNorm2d(6))))
    assert not is_size_independent("merged", small_task(Odd)), "it cannot be stacked"
    assert is_size_independent("loop", digits_cnn()(0)) and not is_size_independent("graphs", digits_mlp()(0))


def test_a_trial_finds_a_kernel_that_looks_at_the_place_in_the_stack(monkeypatch):
    where = place(digits_logreg()(0))
    begun = group(where.task, (7, 12, 5))
    assert trial_passes(where, begun, 20)
    train = numerics.train_stack
    for odd in (16, 17):  # positions that only larger stacks have

        def unlike(where, twin, clients, odd=odd):
            ended = train(where, twin, clients)
            if len(clients) > odd:
                name = next(iter(ended.end))
                ended.end[name][odd] += 1e-6
            return ended

        monkeypatch.setattr(numerics, "train_stack", unlike)
        assert not trial_passes(where, begun, 20)


@pytest.mark.parametrize(("sizes", "size"), [((3, 2), 5), ((5, 5), 5), ((4, 11), 5)])
def test_trials_go_through_with_batches_of_any_width(sizes, size):
    where = place(digits_logreg()(0))
    assert trial_passes(where, group(where.task, sizes, replace(LOCAL, batches=BatchPlan(size, epochs=1))), 4)


def ends_by_place(where, prepared, clients):
    """How equal clients end in a stack of that many: one entry where the place in the stack does not matter."""
    trained = numerics.train_stack(where, where.twins_at(1.0)[0], [numerics._copy_job(prepared)] * clients)
    return {b"".join(leaf[c].numpy().tobytes() for leaf in trained.end.values()) for c in range(clients)}


@pytest.mark.parametrize("sizes", [(1,), (1, 1), (2,)])
def test_a_trial_of_batches_of_one_says_what_this_processor_does(sizes):
    """Products of one row take other kernels on some processors: the trial must say so exactly there."""
    where = place(digits_logreg()(0))
    begun = group(where.task, sizes, replace(LOCAL, batches=BatchPlan(1, epochs=1)))
    ends = set().union(*(ends_by_place(where, begun[0], clients) for clients in (1, 2, 3, 5, 8, 16, 17)))
    if trial_passes(where, begun, 17):
        assert len(ends) == 1
    else:
        assert len(ends) > 1, "a trial that fails although no place in the stack matters"


def test_layouts_agree_only_where_the_arithmetic_does():
    where = place(digits_logreg()(0))

    def laid(sizes, local=LOCAL):
        return layout_of(where, group(where.task, sizes, local))

    assert laid((7, 12)) == laid((5, 9, 6)), "both are padded to batches of five"
    assert laid((7, 12)) != laid((3, 4)), "narrower batches"
    assert laid((5, 10)) != laid((5, 5)) != laid((10, 10)), "padded or not, and for how long"
    assert laid((7, 12)) != laid((7, 12), replace(LOCAL, rate=0.2))
    assert laid((7, 12)).kind == laid((7, 12), replace(LOCAL, rate=0.2)).kind
    assert laid((7, 12)) != laid((7, 12), replace(LOCAL, optimiser=sgd(momentum=0.9)))
    assert laid((7, 12), replace(LOCAL, train=lambda name: "bias" in name)) is None, "frozen weights are shared"


def test_a_layer_whose_clients_share_their_beginning_stays_alone():
    where = place(small_task(dense(200)))
    assert layout_of(where, group(where.task, (5, 5))) is None
    assert layout_of(where, group(where.task, (5,))) is not None, "one client shares with nobody"
    assert layout_of(where, group(where.task, (100, 100))) is not None, "so many steps are no smaller than the weights"
