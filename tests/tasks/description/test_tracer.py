"""Models become descriptions: all that ship, and what forward() does there; what no description has is named."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedfleet.core.errors import BadInput
from fedfleet.core.registry import builder, names, parameters
from fedfleet.executors.numpy.model import NumpyModel
from fedfleet.executors.numpy.operations import ForwardPass
from fedfleet.tasks.description.format import description_from_json
from fedfleet.tasks.description.tracer import describe_module, describe_task

pytestmark = pytest.mark.slow

QUICK = {"digits_mlp", "digits_cnn", "digits_vit", "text_gpt", "text_lstm", "har_cnn", "diabetes_mlp", "transfer"}


def made(name):
    build = builder("tasks", name)
    return build(**({"synthetic": True, "samples": 250} if "synthetic" in parameters(build) else {}))(0)


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.soak) for n in names("tasks")])
def test_every_task_is_described_and_its_description_gives_the_same_outputs(name):
    task = made(name)
    description = description_from_json(describe_task(task).to_json())
    x, params = task.dataset.x[:4], task.init(0)
    with torch.no_grad():
        expected = torch.func.functional_call(
            task.build().eval(), {n: torch.from_numpy(v) for n, v in params.items()}, (torch.from_numpy(x),)
        )
    found = NumpyModel(description).forward({**task.frozen, **params}, x)
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


class Odd(nn.Module):
    """What people write in forward()."""

    def __init__(self, body):
        super().__init__()
        self.layer, self.body = nn.Linear(6, 6), body
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x):
        return self.body(self, x)


WAYS = {
    "shape of the batch": lambda m, x: m.layer(x).view(x.shape[0], 2, 3).mean(1).reshape(len(x), -1),
    "a residual": lambda m, x: x + functional.silu(m.layer(x)) * 0.5 - 1,
    "pieces": lambda m, x: torch.cat([p * (i + 1) for i, p in enumerate(m.layer(x).chunk(2, 1))], 1),
    "a loop": lambda m, x: [x := torch.tanh(m.layer(x)) for _ in range(3)][-1],
    "a mask": lambda m, x: m.layer(x) * torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 0.0]),
    "weights used twice": lambda m, x: m.layer(m.layer(x)) @ m.layer.weight,
    "an index": lambda m, x: torch.stack([m.layer(x)[:, 0], m.layer(x)[:, -1]], dim=1)[..., None].squeeze(-1),
    "a power": lambda m, x: (1 / (1 + m.layer(x) ** 2)).sqrt().log().exp(),
    "softmax": lambda m, x: functional.log_softmax(m.layer(x), dim=-1) + m.layer(x).softmax(1),
    "batch norm": lambda m, x: functional.leaky_relu(m.norm(m.layer(x))),
    "in place": lambda m, x: functional.relu(m.layer(x).add_(1.0), inplace=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_people_write_in_forward(way):
    torch.manual_seed(0)
    module, x = Odd(WAYS[way]), np.random.default_rng(0).normal(size=(7, 6)).astype(np.float32)
    description = describe_module(module, x)
    state = {n: v.clone().requires_grad_(n in description.trained) for n, v in module.eval().state_dict().items()}
    output = torch.func.functional_call(module, state, (torch.from_numpy(x),))
    trained = sorted(n for n in description.trained if any(n in o.inputs for o in description.operations))
    gradients = torch.autograd.grad(output.square().sum(), [state[n] for n in trained])
    model, leaves = NumpyModel(description), {n: v.detach().numpy() for n, v in state.items()}
    tape = model.record(leaves, x, trained, ForwardPass(len(x)))
    np.testing.assert_allclose(tape.output, output.detach().numpy(), atol=1e-5)
    found = model.gradients(tape, 2 * tape.output, trained)
    for name, gradient in zip(trained, gradients, strict=True):
        np.testing.assert_allclose(found[name], gradient.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (lambda m, x: torch.fft.rfft(m.layer(x)).real, r"calls .*rfft.*only PyTorch can train"),
        (lambda m, x: torch.linalg.inv(m.layer(x)[:, None] * torch.eye(6)), "only PyTorch can train"),
        (lambda m, x: m.layer(x) * len(x), "batch of another size"),
        (lambda m, x: m.layer.weight * 1.0, "does not depend on the batch"),
        (lambda m, x: functional.dropout(m.layer(x), 0.5), r"calls dropout\(\) itself; use a layer nn.Dropout"),
    ],
)
def test_what_no_description_has_is_named(body, says):
    with pytest.raises(BadInput, match=says):
        describe_module(Odd(body), np.ones((3, 6), np.float32))


def test_the_module_stays_as_it_was():
    module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).train()
    describe_module(module, np.ones((3, 3), np.float32))
    assert module.training and "forward" not in vars(module[1])
