"""Prompts: where they are put, what they begin as, and which weights are fast."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset, Task
from fedfleet.tasks.digits import digits_logreg, digits_mlp, digits_vit
from fedfleet.tasks.frozen_weights import freeze
from fedfleet.tasks.nets.attention import vit_b16
from fedfleet.tasks.prompts import Border, add_prompts, fast_weights, head_path
from fedfleet.tasks.sensors import har_cnn
from fedfleet.tasks.task import first_parameters
from tests.executors.cohorts import convolutions, small_task


def test_deep_prompts_stand_behind_the_class_token_and_are_replaced_in_every_layer():
    task = add_prompts(digits_vit(width=8, heads=2, depth=3, backbone="")(0), 5, 0.1)
    module, seen = task.build().eval(), []
    for layer in module.layers:
        layer.register_forward_hook(lambda leaf, inputs, out: seen.append((inputs[0], out)))
    with torch.no_grad():
        module(torch.from_numpy(task.dataset.x[:2]))
    for i, (inputs, _) in enumerate(seen):
        assert inputs.shape[1] == 1 + 5 + 16
        assert torch.equal(inputs[:, 1:6], module.prompts[i].table.expand(2, -1, -1))
    for (_, out), (inputs, _) in pairwise(seen):
        assert torch.equal(out[:, 0], inputs[:, 0]) and torch.equal(out[:, 6:], inputs[:, 6:])


def test_prompts_begin_xavier_uniform_and_the_rest_as_it_was():
    plain = digits_vit(width=8, heads=2, depth=2, backbone="")(0)
    first, before = add_prompts(plain, 40, 0.1).init(3), plain.init(3)
    assert all(np.array_equal(first[n], v) for n, v in before.items())
    table, limit = first["prompts.1.table"], (6 / (40 + 8)) ** 0.5
    assert table.shape == (40, 8) and 0.9 * limit < np.abs(table).max() <= limit
    assert not np.array_equal(table, first["prompts.0.table"])


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 12, 7), (2, 9)])
def test_a_border_touches_the_border_alone(shape):
    border = Border(shape, 0.2)
    nn.init.ones_(border.table)
    with torch.no_grad():
        result = border(torch.zeros(2, *shape))[0]
    edges = [min(max(1, round(0.2 * n)), (n - 1) // 2) for n in shape[1:]]
    inner = result[(slice(None), *(slice(e, n - e) for e, n in zip(edges, shape[1:], strict=True)))]
    assert inner.abs().sum() == 0
    assert result.sum() == border.table.numel() == result[0].numel() * shape[0] - inner.numel()


def test_each_cell_of_the_border_has_its_own_number():
    border = Border((2, 7, 6), 0.3)
    nn.init.uniform_(border.table, 1, 2)
    with torch.no_grad():
        result = border(torch.zeros(1, 2, 7, 6))[0]
    assert torch.equal(result[result > 0].sort().values, border.table.flatten().sort().values)


def test_a_bordered_model_begins_as_the_model_itself():
    plain = small_task(convolutions())
    task = add_prompts(plain, 12, 0.1)
    module, own = task.build(), plain.build()
    module.load_state_dict({n: torch.from_numpy(v) for n, v in task.init(4).items()})
    own.load_state_dict({n: torch.from_numpy(v) for n, v in plain.init(4).items()})
    x = torch.from_numpy(plain.dataset.x[:3])
    assert torch.equal(module(x), own(x))


def test_the_head_is_what_is_called_so_or_the_last_linear_layer():
    assert head_path(digits_vit(backbone="")(0)) == "head"
    assert head_path(digits_logreg()(0)) == "1"
    task = add_prompts(har_cnn(synthetic=True, samples=20)(0), 12, 0.1)
    fast = {n for n in task.init(0) if fast_weights(task)(n)}
    assert fast == {
        "border.table", "net.conv1.bias", "net.conv2.bias", "net.hidden.bias", "net.head.weight", "net.head.bias",
    }  # fmt: skip


def test_what_has_no_place_for_prompts_is_refused():
    data = Dataset(np.zeros((4, 6), np.float32), np.zeros(4, np.int64), 2)

    def task(build):
        return Task("own", data, np.arange(1), build, lambda seed: first_parameters(build, seed))

    with pytest.raises(BadInput, match="prompts go into a vision transformer, or around pictures"):
        add_prompts(task(lambda: nn.Linear(6, 2)), 12, 0.1)
    with pytest.raises(BadInput, match="no linear layer that could be its head"):
        head_path(task(lambda: nn.LayerNorm(6)))


@pytest.mark.parametrize(("length", "classes", "fast"), [(12, 600, 674_904), (50, 600, 1_025_112), (12, 3, 215_811)])
def test_the_upload_of_vit_b16_is_what_the_paper_counts(length, classes, fast):
    with torch.device("meta"):
        module = vit_b16(224, classes)
        plain = sum(p.numel() for p in module.parameters())
        module.set_prompts(length)
    chosen = fast_weights(Task("vit", Dataset(np.zeros(0), np.zeros(0, np.int64), 2), np.arange(0), lambda: module, dict))
    counts = {n: p.numel() for n, p in module.named_parameters() if chosen(n)}
    heads = sum(v for n, v in counts.items() if n.startswith("head."))
    prompts = sum(v for n, v in counts.items() if n.startswith("prompts."))
    assert (heads, prompts) == (769 * classes, 12 * length * 768)
    assert sum(counts.values()) - heads - prompts == 102_912
    assert sum(counts.values()) == fast
    if (length, classes) == (12, 600):
        assert plain == 86_260_056 and round(100 * fast / plain, 2) == 0.78


def test_a_task_that_was_changed_has_one_size():
    """Its builder at another width would be that of the model without prompts."""
    task = add_prompts(digits_mlp()(0), 2, 0.2)
    assert digits_mlp()(0).narrow is not None and task.narrow is None
    assert freeze(digits_mlp()(0), lambda name: True, 0).narrow is None
