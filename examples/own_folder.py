"""A folder with one file for each person, an own model and an own loss: `python examples/own_folder.py [FOLDER]`."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import fedfleet

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
if len(sys.argv) < 2:  # no folder of yours: twenty made-up people who walk or run, each in their own way
    for person, rng in enumerate(map(np.random.default_rng, range(20))):
        steps = rng.normal(rng.normal(0, 0.5), 1.0, (40, 2)) + np.repeat([[0, 0], [2, 3]], 20, axis=0)
        lines = [f"{a:.3f},{b:.3f},{'walk' if i < 20 else 'run'}" for i, (a, b) in enumerate(steps)]
        (folder / f"person{person:02}.csv").write_text("\n".join(["speed,height,activity", *lines]))

data = fedfleet.data(folder)  # the last column, or one that is called so, is the label; the owners are the files' names
spec = {"world": {"clients": len(data.owners), "data": "by_owner"}, "pace": {"cohort": 5}, "stop": {"rounds": 20}}
model = torch.nn.Linear(data.x.shape[1], len(data.labels))
loss = torch.nn.CrossEntropyLoss(label_smoothing=0.05)
result = fedfleet.run(spec, model=model, data=data, loss=loss)
print(data, data.labels, f"accuracy {result.metrics['accuracy']:.3f}")
