"""The page's engine trains what the numpy engine trains: the same batches, the same weights to rounding."""

import numpy as np
import pytest
import torch
from torch import nn

from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.client_config import client_config_for
from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.app.spec import resolve
from fedfleet.core.rng import hash_keys, orders
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.executors.numpy.losses import loss_and_gradient
from fedfleet.executors.numpy.model import NumpyModel
from fedfleet.executors.numpy.operations import ForwardPass
from fedfleet.network.device.client_runtime import Assignment, evaluate_model, train_task
from fedfleet.tasks.description.tracer import describe_module
from tests.network.page.node import run_script

WORK = """
import { readFileSync, writeFileSync } from "node:fs";
import { readSheet, readMethod } from "$PAGE/method.js";
import { train, score } from "$PAGE/local_training.js";
import { readTensors } from "$PAGE/tensors.js";
import { computePlainly } from "$PAGE/products.js";
if (told.plain) computePlainly();
const file = (name) => new Uint8Array(readFileSync(`${told.folder}/${name}`));
const held = readTensors(file("samples.safetensors"));
const samples = (part) => ({ x: held.get(`${part}_x`).data, y: Int32Array.from(held.get(`${part}_y`).data, Number) });
const results = [];
for (const [name, work] of told.runs) {
  const method = readMethod(readSheet(file(`${name}.json`))), model = file(`${name}.safetensors`);
  const done = await train(method, work, model, samples("train"));
  writeFileSync(`${told.folder}/${name}.update`, done.payload);
  results.push({ stats: done.stats, weight: done.weight, score: await score(method, model, samples("test")) });
}
console.log(JSON.stringify(results));
"""


def table(task, algorithm):
    return {"task": task, "algorithm": algorithm, "world": {"clients": 6}, "pace": {"cohort": 3}, "stop": {"rounds": 2}, "seed": 5}


def compare(folder, task, algorithms, assignment, tolerance=1e-4, *, plain=False):
    """Train each method on one task here and there, and compare updates, weights, statistics and scores."""
    runtimes, runs = [], []
    for number, algorithm in enumerate(algorithms):
        setup = assemble(resolve(table(task, algorithm)))
        config = client_config_for(setup, 1)
        model = pack_tree(setup.plan.params)
        (folder / f"{number}.json").write_bytes(config)
        (folder / f"{number}.safetensors").write_bytes(model)
        runtimes.append((build_client_runtime(config, engine="numpy"), model))
        work = {"task": str(assignment.task), "steps": assignment.steps, "share": assignment.share, "settings": assignment.settings}
        runs.append([str(number), work])
    runtime = runtimes[0][0]
    data, held = runtime.task.dataset, {}
    for part, rows in (("train", runtime.train), ("test", runtime.test)):
        held[f"{part}_x"], held[f"{part}_y"] = data.x[rows], data.y[rows]
    (folder / "samples.safetensors").write_bytes(pack_tree(held))
    found = run_script(WORK, folder, runs=runs, plain=plain)
    for number, ((runtime, model), result) in enumerate(zip(runtimes, found, strict=True)):
        wanted = train_task(runtime, assignment, model, {})
        update, expected = unpack_tree((folder / f"{number}.update").read_bytes()), unpack_tree(wanted.payload)
        assert update.keys() == expected.keys()
        for name, value in expected.items():
            assert update[name].dtype == value.dtype and np.abs(value).max() > 0
            assert np.abs(update[name] - value).max() <= tolerance, name
        assert result["weight"] == wanted.weight
        assert result["stats"] == pytest.approx(dict(wanted.stats), rel=1e-4)
        score = evaluate_model(runtime, assignment, model, {})
        assert (result["score"]["correct"], result["score"]["total"]) == (score.correct, score.total)
        assert result["score"]["loss"] == pytest.approx(score.loss, rel=1e-5)


METHODS = [
    {"use": "fedavg"},
    {"use": "fedavg", "momentum": 0.9, "weight_decay": 0.01, "weigh": "one", "steps": 7, "lr": 0.05},
    {"use": "fedprox", "mu": 0.5, "batch": 7, "max_samples": 20},
]


@pytest.mark.parametrize("task", ["digits_mlp", "digits_logreg"])
def test_whole_passes_of_dense_models_are_those_of_the_numpy_engine(task, tmp_path):
    compare(tmp_path, {"use": task}, METHODS, Assignment(3))


def test_what_a_task_changes_is_followed(tmp_path):
    compare(tmp_path, {"use": "digits_mlp"}, [{"use": "fedavg"}], Assignment(4, steps=5, share=0.5, settings={"rate": 0.01}))


def test_one_pass_of_a_convolutional_network_is_that_of_the_numpy_engine(tmp_path):
    compare(tmp_path, {"use": "har_cnn", "synthetic": True}, [{"use": "fedavg", "epochs": 1}], Assignment(2, share=0.25))


@pytest.mark.soak
def test_one_pass_of_femnist_cnn_is_that_of_the_numpy_engine(tmp_path):
    compare(tmp_path, {"use": "femnist_cnn", "synthetic": True}, [{"use": "fedavg", "epochs": 1}], Assignment(2, share=0.25))


def test_a_browser_without_webassembly_trains_the_same(tmp_path):
    compare(tmp_path, {"use": "digits_cnn"}, [{"use": "fedavg"}], Assignment(2, steps=5), plain=True)


PRODUCTS = """
import { computePlainly, kernelName, matrix, multiply, transposed } from "$PAGE/products.js";
const results = [];
const numbers = (n, seed) => Float32Array.from({ length: n }, (_, i) => Math.sin(i * 1.7 + seed));
for (const plain of [false, true]) {
  if (plain) computePlainly();
  for (const [rows, columns, depth] of told.sizes) {
    const a = numbers(rows * depth, 1), b = numbers(depth * columns, 2), c = new Float32Array(rows * columns + 3).fill(1);
    multiply(rows, columns, depth, matrix(a, depth), matrix(b, columns), c, 2, false);
    multiply(rows, columns, depth, transposed(a, rows), transposed(b, depth), c, 2, true);
    let worst = Math.abs(c[0] - 1) + Math.abs(c[1] - 1) + Math.abs(c.at(-1) - 1);
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < columns; j++) {
        let sum = 0;
        for (let k = 0; k < depth; k++) sum += a[i * depth + k] * b[k * columns + j] + a[k * rows + i] * b[j * depth + k];
        worst = Math.max(worst, Math.abs(sum - c[2 + i * columns + j]) / depth);
      }
    }
    results.push(worst);
  }
  results.push(kernelName());
}
console.log(JSON.stringify(results));
"""


def test_products_of_any_size_are_right_in_webassembly_and_without(tmp_path):
    sizes = [(1, 1, 1), (4, 8, 3), (3, 7, 5), (5, 9, 257), (13, 17, 600), (64, 2, 30), (2, 40, 1)]
    found = run_script(PRODUCTS, tmp_path, sizes=sizes)
    assert [name for name in found if isinstance(name, str)] == ["WebAssembly", "JavaScript"]
    assert max(value for value in found if not isinstance(value, str)) < 1e-6


# ---- every operation, by itself -----------------------------------------------------------------------------------


class Shapes(nn.Module):
    """What no other model here does: arithmetic between values, reductions, changes of shape."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.2, 0.8, 6))
        self.out = nn.Linear(6, 5)

    def forward(self, x):
        a = x.flatten(2).permute(0, 2, 1)
        b = (a * self.scale).exp() / (2.0 + a**2) - 0.25
        c = b.softmax(-1).sum(1) + b.mean((1,)) * 3.0 + (1.0 - a.mean(1, keepdim=True)).squeeze(1)
        return nn.functional.log_softmax(self.out((c.clamp(0.5, 2.5) + 0.1).sqrt().log()), -1)


def small(*layers):
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(5))


MODELS = {
    "strides, padding, dilation, groups": lambda: small(
        nn.Conv2d(6, 8, (3, 2), stride=(2, 1), padding=(1, 2), groups=2), nn.Conv2d(8, 4, 2, dilation=(1, 2), bias=False)
    ),
    "pooling": lambda: small(nn.MaxPool2d(3, 2, 1), nn.AvgPool2d((2, 3), (1, 2), (1, 1))),
    "batch norm": lambda: small(nn.Conv2d(6, 4, 3), nn.BatchNorm2d(4), nn.ReLU()),
    "group and layer norm": lambda: small(nn.GroupNorm(3, 6), nn.LayerNorm([9, 8])),
    "activations": lambda: small(
        nn.Tanh(), nn.SiLU(), nn.GELU(), nn.GELU("tanh"), nn.Hardswish(), nn.Hardsigmoid(), nn.LeakyReLU(0.2), nn.Sigmoid()
    ),
    "shapes": Shapes,
}
STEP = """
import { readFileSync, writeFileSync } from "node:fs";
import { crossEntropy, DescribedModel, ForwardPass } from "$PAGE/engine.js";
import { readTensors, writeTensors } from "$PAGE/tensors.js";
for (const number of told.numbers) {
  const model = new DescribedModel(readFileSync(`${told.folder}/${number}.json`, "utf-8"));
  const leaves = readTensors(new Uint8Array(readFileSync(`${told.folder}/${number}.safetensors`))), x = leaves.get("x");
  const labels = Int32Array.from(leaves.get("y").data, Number), wanted = new Set(model.trained);
  const tape = model.record(leaves, x, wanted, new ForwardPass(labels.length, { training: true }));
  const { losses, gradient } = crossEntropy(tape.output, labels), found = model.gradients(tape, gradient, wanted);
  const loss = { data: Float32Array.from(losses), shape: [losses.length] };
  const still = model.record(leaves, x, new Set(), new ForwardPass(labels.length));
  const all = [["loss", loss], ...found, ...tape.buffers, ["still", still.output]].filter(([name]) => typeof name === "string");
  writeFileSync(`${told.folder}/${number}.out`, writeTensors(new Map(all)));
}
"""


def test_every_operation_has_the_values_and_gradients_of_the_numpy_engine(tmp_path):
    rng, cases = np.random.default_rng(3), []
    x, y = rng.normal(size=(7, 6, 9, 8)).astype(np.float32), rng.integers(5, size=7)
    for number, make in enumerate(MODELS.values()):
        torch.manual_seed(number)
        module = make()
        module(torch.from_numpy(x))
        description = describe_module(module, x)
        leaves = {n: v.detach().numpy().copy() for n, v in module.state_dict().items()}
        # Fresh scales are 1 and fresh means are 0, which would hide a mistake.
        leaves |= {n: v + rng.uniform(0.1, 0.5, v.shape).astype(np.float32) for n, v in leaves.items() if v.dtype == np.float32}
        (tmp_path / f"{number}.json").write_text(description.to_json())
        (tmp_path / f"{number}.safetensors").write_bytes(pack_tree({**leaves, "x": x, "y": y}))
        cases.append((description, leaves))
    run_script(STEP, tmp_path, numbers=list(range(len(cases))))
    for number, (description, leaves) in enumerate(cases):
        name, model, wanted = list(MODELS)[number], NumpyModel(description), description.trained
        tape = model.record(leaves, x, wanted, ForwardPass(len(x), training=True))
        losses, gradient = loss_and_gradient(tape.output, y)
        expected = {"loss": losses, **model.gradients(tape, gradient, wanted), **tape.buffers, "still": model.forward(leaves, x)}
        found = unpack_tree((tmp_path / f"{number}.out").read_bytes())
        assert found.keys() == expected.keys(), name
        for leaf, value in expected.items():
            scale = max(1.0, float(np.abs(value).max()))
            assert np.abs(found[leaf].reshape(np.shape(value)) - value).max() <= 1e-4 * scale, (name, leaf)


# ---- draws --------------------------------------------------------------------------------------------------------

DRAWS = """
import { hashKey, keptUnits, order } from "$PAGE/draws.js";
const key = BigInt(told.key), seed = BigInt(told.seed);
console.log(JSON.stringify({
  order: [...order(seed, key, 9n, 3, 50)], hash: String(hashKey(seed, "dropout", key, 9n, 4)),
  kept: [...keptUnits(hashKey(seed, "dropout", key, 9n, 4), 2, 0.25, 40)],
}));
"""


def test_draws_are_those_of_a_simulation(tmp_path):
    from fedfleet.executors.numpy.operations import dropout

    seed, key, task = 11, np.array([0xDEADBEEF12345678], np.uint64), np.array([9])
    found = run_script(DRAWS, tmp_path, seed=str(seed), key=str(int(key[0])))
    assert found["order"] == orders(seed, key, task, 3, 50)[0].tolist()
    hashed = int(hash_keys(seed, "dropout", key, task, 4)[0])
    assert found["hash"] == str(hashed)
    kept, _ = dropout([np.ones(40, np.float32)], {"rate": 0.25, "layer": 2}, [True], ForwardPass(1, training=True, dropout=hashed))
    assert found["kept"] == pytest.approx(kept.tolist())
