"""The stacked twin: the same forward for a stack of clients, what it can fuse and share, and what it cannot stack."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

from fedfleet.executors.client_half import prepare_job
from fedfleet.executors.stacked.cohort import train_stack
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.executors.stacked.placement import open_place
from fedfleet.executors.stacked.stacked_model import CannotStack, check_twin, make_twin, reused_leaves
from fedfleet.learn.zoo import fedavg
from fedfleet.tasks.digits import digits_vit
from fedfleet.tasks.frozen_weights import freeze
from fedfleet.tasks.sensors import har_cnn
from fedfleet.tasks.text import char_lstm
from fedfleet.tasks.tied_weights import hide_ties
from tests.executors.cohorts import (
    Odd,
    Twice,
    compare,
    compare_jobs,
    convolutions,
    dense,
    jobs_of,
    jobs_with,
    small_task,
)

SAMPLE = torch.zeros(2, 1, 12, 12)


def stacks(build, clients=3):
    """Parameters of unlike clients, one after the other, and the clients' own."""
    own = []
    for c in range(clients):
        torch.manual_seed(c)
        own.append({n: v.clone() for n, v in build().state_dict().items()})
    return {n: torch.stack([tree[n] for tree in own]) for n in own[0]}, own


@pytest.mark.parametrize(
    "build",
    [convolutions(), convolutions(lambda: nn.GroupNorm(2, 6)), convolutions(lambda: nn.BatchNorm2d(6)), dense(), Twice],
    ids=["convolutions", "group norm", "batch norm", "dense", "twice"],
)
def test_a_twin_is_each_clients_own_model_on_its_own_batch(build):
    whole, own = stacks(build)
    twin, module = make_twin(build(), SAMPLE), build()
    x = torch.sin(torch.arange(3 * 4 * 144.0)).reshape(12, 1, 12, 12)
    twin.load(whole, 3)
    result = twin.module.eval()(x)
    wanted = [functional_call(module.eval(), own[c], (x[c * 4 : c * 4 + 4],)) for c in range(3)]
    assert torch.allclose(result, torch.cat(wanted), atol=1e-5)
    back = twin.read(list(whole))
    assert all(torch.equal(v, back[n]) for n, v in whole.items())


def test_a_layer_that_is_used_twice_waits_for_its_whole_gradient():
    task = small_task(Twice)
    twin = make_twin(Twice(), torch.zeros(2, 1, 12, 12))
    assert {"again.weight", "again.bias"}.isdisjoint(twin.fusable)
    compare(task, fedavg(lr=0.1), (9, 20, 3))


def test_looking_at_which_leaves_are_used_again_leaves_no_trace():
    module = Twice().train()
    assert reused_leaves(module, SAMPLE) == {"again"}
    assert module.training
    assert not any(leaf._forward_hooks for leaf in module.modules())


def test_linear_and_convolution_can_be_fused_and_only_linear_weights_shared():
    twin = make_twin(convolutions(lambda: nn.GroupNorm(2, 6))(), SAMPLE)
    assert twin.fusable == {"0.weight", "3.weight", "3.bias", "6.weight", "6.bias"}
    assert twin.shareable == {"6.weight"}
    assert twin.flat == {"0.weight", "3.weight"}


def test_a_leaf_is_frozen_whole_or_not_at_all():
    twin = make_twin(dense()(), SAMPLE)
    assert twin.freeze({"3.weight", "3.bias"})
    assert [twin.places[n][0].frozen for n in ("1.weight", "3.weight")] == [True, False]
    assert twin.freeze(None)
    assert [twin.places[n][0].frozen for n in ("1.weight", "3.weight")] == [False, False]
    assert not twin.freeze({"3.weight"})  # its bias would stay while its weight moves


def test_a_model_that_cannot_be_stacked_is_trained_by_the_loop_and_says_so():
    with pytest.raises(CannotStack, match="Odd"):
        make_twin(Odd())
    task = small_task(Odd)
    execute = stacked_executor(task)
    assert execute.name == "stacked-loop"
    assert "cannot be stacked" in execute.notes[0]
    compare(task, fedavg(lr=0.05), (9, 20))


@pytest.mark.parametrize(
    ("leaf", "why"),
    [
        (nn.Conv2d(4, 4, 3, groups=2), "without groups"),
        (nn.Conv2d(4, 4, 3, padding="same"), "zero-padded"),
        (nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), "zero-padded"),
        (nn.BatchNorm2d(4, momentum=None), "running statistics"),
        (nn.LSTM(4, 4, bidirectional=True, batch_first=True), "unidirectional"),
        (nn.LSTM(4, 4), "batch-first"),
        (nn.Bilinear(2, 2, 2), "Bilinear, which has parameters and no stacked form"),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else "",
)
def test_a_leaf_that_cannot_be_stacked_is_named_with_the_reason(leaf, why):
    with pytest.raises(CannotStack, match=rf"^inside\.0.*{why}"):
        make_twin(nn.ModuleDict({"inside": nn.Sequential(leaf)}))


def test_the_model_itself_may_be_one_leaf():
    twin = make_twin(nn.Linear(4, 2))
    twin.load({"weight": torch.ones(2, 2, 4), "bias": torch.zeros(2, 2)}, 2)
    assert twin.module(torch.ones(6, 4)).tolist() == [[4.0, 4.0]] * 6


# ---- frozen inside the model ---------------------------------------------------------------------------------------


def only_biases(name):
    return "bias" in name or name.startswith("head")


FROZEN = {
    "convolutions": lambda: small_task(convolutions()),
    "group norm": lambda: small_task(convolutions(lambda: nn.GroupNorm(2, 6))),
    "batch norm": lambda: small_task(convolutions(lambda: nn.BatchNorm2d(6))),
    "dense": lambda: small_task(dense(20)),
    "transformer": lambda: digits_vit(width=8, heads=2, depth=1, backbone="")(0),
    "words": lambda: char_lstm(hidden=16, synthetic=True, samples=40)(0),
    "windows": lambda: har_cnn(hidden=8, synthetic=True, samples=40)(0),
}


@pytest.mark.parametrize("name", FROZEN)
def test_what_is_frozen_is_one_tensor_whatever_the_number_of_clients(name):
    task = freeze(FROZEN[name](), only_biases, 0)
    module = task.build()
    twin = make_twin(module, torch.from_numpy(task.dataset.x[:2]))
    start = {n: torch.from_numpy(v) for n, v in task.init(0).items()}
    twin.load({n: v.expand(7, *v.shape).contiguous() for n, v in start.items()}, 7)
    held = {v.ctypes.data for v in task.frozen.values()}
    tensors = [v for leaf in twin.module.modules() for v in (*vars(leaf).values(), *leaf._buffers.values())]
    result = {v.data_ptr() for v in tensors if isinstance(v, torch.Tensor) and v.data_ptr() in held}
    used = {v.ctypes.data for n, v in task.frozen.items() if not n.endswith("num_batches_tracked")}
    assert used <= result, "every frozen leaf is the very memory of the task"
    assert all(v.stride(0) == 0 for leaf, n, _ in twin.held_weights for v in [getattr(leaf, n)])


@pytest.mark.parametrize("name", FROZEN)
def test_frozen_models_train_stacked_as_inline(name):
    task = freeze(FROZEN[name](), only_biases, 0)
    compare(task, fedavg(lr=0.05, batch=4, epochs=1), (9, 4, 6))


def test_no_step_copies_what_is_frozen():
    """Of all tensors that a pass makes, none has a frozen layer's weights once per client."""
    task = freeze(FROZEN["transformer"](), only_biases, 0)
    shapes = set()

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for v in out if isinstance(out, tuple | list) else (out,):
                if isinstance(v, torch.Tensor) and v.dim() and 0 not in v.stride():
                    shapes.add(tuple(v.shape))
            return out

    execute, jobs = stacked_executor(task), jobs_of(task, fedavg(lr=0.05, batch=4, epochs=1), (8,) * 5)
    with Watching():
        list(execute.train(jobs))
    weights = {v.shape for n, v in task.frozen.items() if n.endswith("weight") and v.ndim > 1}
    assert len(shapes) > 50, "the watch is on"
    assert not shapes & {(5, *shape) for shape in weights} and not shapes & {(20, *shape) for shape in weights}


def test_weights_that_a_pass_leaves_alone_are_not_copied_either():
    task = small_task(dense(20))
    local = replace(fedavg(lr=0.05, batch=4, epochs=1).local(0, {}), train=only_biases)
    jobs = jobs_with(task, local, (9, 4, 6))
    compare_jobs(task, jobs)
    where = open_place(task, device="cpu", threads=1, form="merged", tf32=False, graphs=False)
    ended = train_stack(where, where.twins[0], [prepare_job(job) for job in jobs])
    assert ended.end["1.weight"].stride(0) == 0 and ended.end["1.bias"].stride(0) != 0


class Tied(nn.Module):
    """A head that is its table."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x):
        return self.head(self.table(x))


class Placed(nn.Module):
    """Looks up places, which are the same for every sample and so have no batch."""

    def __init__(self):
        super().__init__()
        self.table, self.places = nn.Embedding(5, 3), nn.Embedding(4, 3)

    def forward(self, x):
        return self.table(x) + self.places(torch.arange(x.shape[1])[None])


class Mixing(nn.Module):
    """Compares samples with their batch."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 2)

    def forward(self, x):
        out = self.inner(x)
        return out - out.mean(0)


def test_what_a_merged_batch_would_spoil_is_not_stacked():
    tokens = torch.arange(8).reshape(2, 4) % 5
    with pytest.raises(CannotStack, match="head shares its weight with another layer"):
        make_twin(hide_ties(Tied()), tokens)
    for model, sample, why in (
        (Placed(), tokens, "forward.. fails when batches of clients are joined"),
        (Mixing(), torch.randn(2, 4), "gives other outputs when batches of clients are joined"),
    ):
        twin = make_twin(model, sample)
        with pytest.raises(CannotStack, match=why):
            check_twin(twin, model, sample)
        assert model.training, "as it was"


@pytest.mark.parametrize("build", [convolutions(lambda: nn.BatchNorm2d(6)), dense()], ids=["batch norm", "dense"])
def test_a_twin_that_answers_as_its_model_does_passes(build):
    module = build()
    twin = make_twin(module, SAMPLE)
    check_twin(twin, module, SAMPLE)
    assert module.training and twin.module.training
