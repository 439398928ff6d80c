"""Files that people bring, one for each kind of task, and a model of their own."""

from __future__ import annotations

import numpy as np

MODEL = '''
import torch


class Net(torch.nn.Module):
    """A small perceptron: tanh, so that it is no row of PyTorch's own layers by itself."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.first = torch.nn.Linear(inputs, 8)
        self.last = torch.nn.Linear(8, outputs)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


def layers(inputs, outputs):
    return torch.nn.Sequential(torch.nn.Linear(inputs, 8), torch.nn.ReLU(), torch.nn.Linear(8, outputs))


class Reader(torch.nn.Module):
    """A score for every token at every place."""

    def __init__(self, outputs):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(outputs, 8), torch.nn.Linear(8, outputs)

    def forward(self, x):
        return self.head(torch.tanh(self.embed(x)))
'''
KINDS = ("classification", "regression", "multilabel", "next_token")
PEOPLE = 4
# How each kind is asked for: the columns of the labels.
LABELS = {"classification": "activity", "regression": ["height", "weight"], "multilabel": ["warm", "loud"], "next_token": None}


def write_model(folder):
    """model.py in this folder."""
    path = folder / "model.py"
    path.write_text(MODEL)
    return path


def write_data(folder, kind, people=PEOPLE, each=24, seed=0):
    """A file or folder of samples of that many people, and its columns as `label` and `owner`."""
    if kind == "next_token":
        texts = folder / "texts"
        texts.mkdir(exist_ok=True)
        for person in range(people):
            (texts / f"p{person}.txt").write_text(f"abcab{'cb' * person}a " * 40)
        return texts, {}
    rng, path = np.random.default_rng(seed), folder / f"{kind}.csv"
    x = rng.normal(size=(people * each, 3)) * [1.0, 10.0, 1000.0]
    rows = []
    for i, (a, b, c) in enumerate(x):
        labels = {
            "classification": ["walk" if a > 0.3 else "run" if b > 0 else "sit"],
            "regression": [f"{170 + 5 * a:.2f}", f"{60 + b / 2:.2f}"],
            "multilabel": [str(int(a > 0)), str(int(c > 0))],
        }[kind]
        rows.append([f"p{i % people}", f"{a:.4f}", f"{b:.3f}", f"{c:.1f}", *labels])
    names = ["user", "a", "b", "c", *np.atleast_1d(LABELS[kind])]
    path.write_text("\n".join(",".join(row) for row in [names, *rows]) + "\n")
    return path, {"label": LABELS[kind], "owner": "user"}
