"""ONNX out and in: what a file computes is what the model computes, and what cannot be taken is named."""

import io

import numpy as np
import pytest
import torch
from torch import nn

from fedfleet.core.errors import BadInput
from fedfleet.core.registry import builder, names, parameters
from fedfleet.tasks.description.format import OPERATIONS
from fedfleet.tasks.description.module import DescribedModule
from fedfleet.tasks.description.onnx_export import WRITERS, to_onnx
from fedfleet.tasks.description.onnx_import import from_onnx, read_onnx
from fedfleet.tasks.description.tracer import describe_module, describe_task
from fedfleet.tasks.dropout import AddressedDropout
from tests.executors.numpy.test_operations import LAYERS

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.slow


def computed(data, x):
    """What another program makes of a file."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(data, options).run(None, {"input": x})[0]


def outputs(description, leaves, x):
    with torch.no_grad():
        return DescribedModule(description, leaves).eval()(torch.from_numpy(x)).numpy()


def check_both_ways(description, leaves, x, expected):
    data = to_onnx(description, leaves)
    np.testing.assert_allclose(computed(data, x), expected, atol=1e-5)
    again, weights = from_onnx(data, "model.onnx")
    assert again.trained == description.trained
    assert all(np.array_equal(weights[n], leaves[n]) for n in weights)
    np.testing.assert_allclose(outputs(again, weights, x), expected, atol=1e-5)
    return data


MORE = {
    "pieces": (lambda: Pieces(), (4, 6)),
    "dropout": (lambda: nn.Sequential(nn.Linear(5, 6), AddressedDropout(0.5, 3)), (5,)),
}


class Pieces(nn.Module):
    """Shapes, indices and arithmetic as people write them."""

    def forward(self, x):
        y = torch.cat([x[:, 0], x[:, -1:].squeeze(1), x[:, ::2].mean(1)], dim=1)[:, None].expand(-1, 2, -1)
        y = torch.stack([y, 2 - y / 3], dim=1).sum((1, 2)) ** 2
        return torch.nn.functional.log_softmax(torch.erf(y).clamp(min=0.1), dim=-1)


@pytest.mark.parametrize("name", [*LAYERS, *MORE])
def test_layers_go_out_and_come_back(name):
    torch.manual_seed(1)
    make, shape = {**LAYERS, **MORE}[name]
    module, x = make().eval(), np.random.default_rng(2).normal(size=(5, *shape)).astype(np.float32)
    description = describe_module(module, x)
    leaves = {n: v.numpy().copy() for n, v in module.state_dict().items()}
    with torch.no_grad():
        check_both_ways(description, leaves, x, module(torch.from_numpy(x)).numpy())


def test_every_operation_can_be_written():
    assert WRITERS.keys() == OPERATIONS.keys()


def made(name):
    build = builder("tasks", name)
    return build(**({"synthetic": True, "samples": 250} if "synthetic" in parameters(build) else {}))(0)


QUICK = {"digits_cnn", "text_lstm"}


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.soak) for n in names("tasks")])
def test_every_task_that_ships_goes_out_and_comes_back(name):
    task = made(name)
    description, leaves, x = describe_task(task), {**task.frozen, **task.init(0)}, task.dataset.x[:5]
    with torch.no_grad():
        state = {n: torch.from_numpy(v) for n, v in task.init(0).items()}
        expected = torch.func.functional_call(task.build().eval(), state, (torch.from_numpy(x),)).numpy()
    np.testing.assert_allclose(outputs(description, leaves, x), expected, atol=1e-5)
    check_both_ways(description, leaves, x, expected)


class Pictures(nn.Module):
    """What PyTorch's own export folds: a normalisation into its convolution."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.pool = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.MaxPool2d(2)
        self.hidden, self.head, self.drop = nn.Linear(128, 16), nn.Linear(16, 5), nn.Dropout(0.2)

    def forward(self, x):
        x = self.pool(torch.relu(self.norm(self.first(x))))
        return self.head(self.drop(torch.nn.functional.gelu(self.hidden(x.view(x.size(0), -1)))))


class Words(nn.Module):
    """Layers whose shapes a file computes."""

    def __init__(self):
        super().__init__()
        self.table, self.lstm, self.gru = (
            nn.Embedding(20, 8),
            nn.LSTM(8, 6, num_layers=2, batch_first=True),
            nn.GRU(6, 6, batch_first=True),
        )
        self.encoder, self.head = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True, norm_first=True), nn.Linear(6, 4)

    def forward(self, x):
        return self.head(self.encoder(self.gru(self.lstm(self.table(x))[0])[0]).mean(1))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("make", "x"), [(Pictures, torch.randn(2, 3, 8, 8)), (Words, torch.randint(0, 20, (2, 7)))])
def test_files_of_pytorchs_own_export_come_in(make, x):
    module, file = make().eval(), io.BytesIO()
    axes = {"input": {0: "batch"}, "output": {0: "batch"}}
    torch.onnx.export(module, (x,), file, dynamo=False, input_names=["input"], output_names=["output"], dynamic_axes=axes)
    description, weights = from_onnx(file.getvalue(), "net.onnx")
    assert description.trained == set(weights)
    with torch.no_grad():
        np.testing.assert_allclose(outputs(description, weights, x.numpy()), module(x).numpy(), atol=1e-5)


def file_of(nodes, shape=("batch", 4), tensors=()):
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "g", [info("x", onnx.TensorProto.FLOAT, shape)], [info("y", onnx.TensorProto.FLOAT, ["batch", "n"])], list(tensors)
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


node = onnx.helper.make_node


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"no file", "net.onnx is not a valid ONNX file"),
        (file_of([node("Elu", ["x"], ["y"])]), "node 0 of net.onnx is Elu, which FedFleet cannot train"),
        (file_of([node("Relu", ["x"], ["y"])], (2, 4)), r"takes batches of 2 alone; export it with a first axis that is free"),
        (file_of([node("Relu", ["x"], ["y"])], ("batch", "width")), "needs a fixed shape after the batch"),
        (
            file_of([node("Constant", [], ["y"], value_floats=[1.0, 2.0])]),
            "the output of net.onnx does not depend on its input",
        ),
        (
            file_of([node("Reshape", ["x", "s"], ["y"])], tensors=[onnx.numpy_helper.from_array(np.array([3, 7]), "s")]),
            r"node 0 of net.onnx \(Reshape\) does not fit what it takes",
        ),
    ],
    ids=["text", "operator", "batch", "shape", "output", "reshape"],
)
def test_what_cannot_be_taken_is_named(data, says):
    with pytest.raises(BadInput, match=says):
        from_onnx(data, "net.onnx")


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(BadInput, match="there is no file"):
        read_onnx(tmp_path / "none.onnx")


def test_weights_that_do_not_fit_are_refused():
    module, x = nn.Linear(3, 2), np.zeros((2, 3), np.float32)
    with pytest.raises(Exception, match="do not have the shape"):
        to_onnx(describe_module(module, x), {"weight": np.zeros((2, 4), np.float32), "bias": np.zeros(2, np.float32)})
