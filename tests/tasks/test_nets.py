"""The models: their sizes, and the rules that let an executor train many clients of one in a batch."""

import pytest
import torch
from torch import nn

from fedfleet.core.registry import builder, names, parameters
from fedfleet.tasks.dropout import AddressedDropout
from fedfleet.tasks.nets.attention import ClassToken, Positions

pytestmark = pytest.mark.slow

LEAVES = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.BatchNorm2d,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.Embedding,
    nn.LSTM,
    ClassToken,
    Positions,
)


MADE_UP = [n for n in names("tasks") if "synthetic" in parameters(builder("tasks", n))]


SIZES = {
    "femnist_cnn": 3_327_934,
    "cifar_cnn": 1_626_442,
    "mlp": 199_210,
    "logreg": 7_850,
    "char_lstm": 819_920,
    "har_cnn": 429_894,
    "kws_cnn": 147_020,
    "resnet18_gn": 11_173_962,
    "vit_tiny": 2_693_578,
    "celeba_cnn": 7_279_810,
    "fashion_cnn": 1_663_370,
    "twitter_logreg": 102,
    "harbox_mlp": 115_973,
    "realworld_cnn": 226_216,
}


@pytest.fixture(autouse=True)
def _one_thread():
    """Small batches gain nothing from threads, and lose much where other tests use the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def made(name, samples=250):
    return builder("tasks", name)(synthetic=True, samples=samples)(0)


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_sizes(name, size):
    assert sum(p.numel() for p in made(name).build().parameters()) == size


@pytest.mark.parametrize("name", MADE_UP)
def test_every_parameter_lives_in_a_leaf_and_learns(name):
    task = made(name)
    module = task.build().train()
    for path, leaf in module.named_modules():
        own = list(leaf.parameters(recurse=False))
        assert not own or isinstance(leaf, LEAVES), path
        assert not getattr(leaf, "inplace", False) and not isinstance(leaf, nn.Dropout), path
    places = [m.layer for m in module.modules() if isinstance(m, AddressedDropout)]
    assert len(places) == len(set(places))
    module.eval()  # masks would silence some units
    x, y = torch.from_numpy(task.dataset.x[:8]), torch.from_numpy(task.dataset.y[:8])
    nn.functional.cross_entropy(module(x), y).backward()
    for path, p in module.named_parameters():
        assert p.grad is not None and p.grad.abs().sum() > 0, path


@pytest.mark.parametrize("name", MADE_UP)
def test_samples_do_not_mix(name):
    task = made(name)
    module = task.build().eval()
    x = torch.from_numpy(task.dataset.x[:3])
    with torch.no_grad():
        together, alone = module(x), torch.cat([module(x[i : i + 1]) for i in range(3)])
    places = task.dataset.x.shape[1:] if task.dataset.kind.places else ()
    assert together.shape == (3, *places, task.dataset.classes)
    assert torch.allclose(together, alone, atol=1e-4)
