"""A model, losses and metrics of somebody's own, in a module that can be imported again."""

import numpy as np
import torch

SPEC = {
    "seed": 2,
    "world": {"clients": 6, "devices": "spread"},
    "pace": {"cohort": 3},
    "stop": {"rounds": 6},
    "run": {"checkpoint_every": 2},
}


class Net(torch.nn.Module):
    """Two layers, not in a row of PyTorch's own."""

    def __init__(self, hidden=8):
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(5, hidden), torch.nn.Linear(hidden, 2)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(x)))


def focal(outputs, labels):
    """One value per sample."""
    return torch.nn.functional.cross_entropy(outputs, labels, reduction="none") ** 1.5


def smooth(outputs, labels):
    """One value for all samples."""
    return torch.nn.functional.cross_entropy(outputs, labels, label_smoothing=0.1)


def share_right(outputs, labels):
    """Accuracy, once more."""
    assert isinstance(outputs, np.ndarray) and outputs.dtype == np.float32
    return (outputs.argmax(1) == labels).mean()


def breaks(outputs, labels):
    """A metric with a fault."""
    raise ZeroDivisionError("nothing to divide by")


def blobs(owners=False):
    """Two classes that a line can tell apart."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    x = rng.normal(0, 0.3, (200, 5)) + y[:, None]
    return (x, y, np.arange(200) % 9) if owners else (x, y)


def row():
    """PyTorch's own layers in a row, with weights that are always the same."""
    torch.manual_seed(4)
    return torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
