"""An own PyTorch model on own arrays, on a fleet of unlike devices: `python examples/own_model.py`."""

import tempfile

import numpy as np
import torch

import fedfleet

rng = np.random.default_rng(0)
y = rng.integers(0, 3, 900)
x = (rng.normal(0, 0.6, (900, 8)) + y[:, None]).astype(np.float32)
owner = rng.integers(0, 25, 900)  # who made each sample: these people become the clients

spec = {
    "seed": 1,
    "world": {
        "clients": 25,
        "devices": {"use": "spread", "link": 1.5},
        "data": {"use": "by_owner"},
        "model_bytes": 2e7,
    },
    "algorithm": {"use": "fedavg", "optimiser": "adam", "lr": 0.02},
    "pace": {"use": "deadline", "cohort": 8, "seconds": 30.0},
    "stop": {"rounds": 40, "patience": 15},
}
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))


def smooth(outputs, labels):
    """A loss of our own: one value per sample."""
    return torch.nn.functional.cross_entropy(outputs, labels, label_smoothing=0.05, reduction="none")


def worst_class(outputs, labels):
    """A metric of our own: the accuracy of the class that does worst."""
    right = outputs.argmax(1) == labels
    return min(right[labels == c].mean() for c in range(3))


def tell(commit):
    """Called with every new model."""
    if commit.version % 10 == 0:
        print(f"version {commit.version} after {commit.time:.0f} s: {commit.accuracy:.3f}")


with tempfile.TemporaryDirectory() as folder:
    result = fedfleet.run(
        spec, model=model, data=(x, y, owner), loss=smooth, metrics={"worst_class": worst_class}, on_commit=tell,
        out=f"{folder}/run",
    )  # fmt: skip
    m = result.metrics
    print(f"accuracy {m['accuracy']:.3f} after {m['rounds']} rounds, {m['virtual_seconds'] / 60:.0f} virtual minutes")
    print(f"the worst class: {m['own']['worst_class']:.3f}")
    clients = result.clients
    print(f"{(clients['folded'] == 0).sum()} of 25 clients never took part; {m['wasted']['share']:.0%} of device time was wasted")
    replayed = fedfleet.replay(result, loss=smooth)  # the loss is code, and we give it again ourselves
    print(f"replayed: {replayed['commits']} models verified, digest {replayed['digest'][:16]}")
model.load_state_dict({name: torch.from_numpy(value) for name, value in result.params.items()})
