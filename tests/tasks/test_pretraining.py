"""Pretraining: repeatable, judged on what was held out, on data of the right shape that the task does not have."""

import numpy as np
import pytest
import torch

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset
from fedfleet.core.trees import content_hash
from fedfleet.tasks.backbones import fit_weights
from fedfleet.tasks.digits import digits, digits_mlp
from fedfleet.tasks.pretraining import common_rows, pretrain
from fedfleet.tasks.synthetic import glyphs

DATA = glyphs((1, 8, 8), classes=4, samples=400)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_it_learns_says_how_it_goes_and_does_so_again():
    task, told = digits_mlp()(0), []
    tree, accuracy = pretrain(task, DATA, epochs=6, seed=0, device="cpu", on_epoch=lambda n, a: told.append((n, a)))
    again, _ = pretrain(task, DATA, epochs=6, seed=0, device="cpu")
    assert content_hash(tree) == content_hash(again)
    assert accuracy > 0.5, "guessing would get a quarter"
    assert [n for n, _ in told] == [1, 2, 3, 4, 5, 6] and told[-1][1] == accuracy


def test_the_head_is_for_the_data_and_the_rest_for_the_task():
    task = digits_mlp()(0)
    tree, _ = pretrain(task, DATA, epochs=1, seed=0, device="cpu")
    assert tree["3.weight"].shape == (4, 64) and tree["1.weight"].shape == task.init(0)["1.weight"].shape
    head = {n.replace("3.", "head."): v for n, v in tree.items()}
    assert {*fit_weights(head, {n.replace("3.", "head."): v for n, v in task.init(0).items()}, "")} == {
        "1.weight",
        "1.bias",
    }


def test_data_of_another_shape_are_refused():
    with pytest.raises(BadInput, match=r"shape \(1, 9, 9\), and digits_mlp takes \(1, 8, 8\)"):
        pretrain(digits_mlp()(0), glyphs((1, 9, 9), classes=2, samples=10), epochs=1, seed=0, device="cpu")


def test_samples_in_common_are_counted():
    own = digits()
    some = Dataset(np.concatenate([own.x[:3], DATA.x[:5]]), np.zeros(8, np.int64), 2)
    assert common_rows(own, some) == 3
    assert common_rows(own, DATA) == common_rows(own, glyphs((1, 9, 9), classes=2, samples=9)) == 0
