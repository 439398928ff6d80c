"""Which pacing for my model on a severe fleet? Activity data by person, three pacings, five seeds: `python examples/newcomer.py`.

Reads $FEDFLEET_DATA/wisdm51/windows200x3.npz, watch movements of 51 people, or a made-up stand-in if it is missing.
"""

import os
from pathlib import Path

import numpy as np
import torch
from torch import nn

import fedfleet

file = Path(os.environ.get("FEDFLEET_DATA", "../shared/data")) / "wisdm51/windows200x3.npz"
if file.exists():
    windows = np.load(file)
    x, y, person = windows["x"].transpose(0, 2, 1).astype("float32"), windows["y"], windows["user"]
    x = (x - x.mean((0, 2), keepdims=True)) / x.std((0, 2), keepdims=True)
else:
    rng = np.random.default_rng(0)
    y, person = rng.integers(0, 6, 1500), rng.integers(0, 51, 1500)
    x = (np.sin(np.arange(200) * (y[:, None, None] + 1) / 9) + rng.normal(0, 1, (1500, 3, 200))).astype("float32")

torch.manual_seed(0)  # the first weights are part of the question
model = nn.Sequential(nn.Conv1d(3, 16, 9, stride=4), nn.ReLU(), nn.Conv1d(16, 32, 5, stride=2), nn.ReLU(),
                      nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(128, 6))  # fmt: skip
severe = {"clients": 51, "model_bytes": 1e8, "data": "by_owner", "devices": {"use": "dpgmm", "sigma": 1.4, "mean_mbps": 60.0},
          "states": {"use": "dpcsm", "alpha": 100.0, "start_rank": 150}}  # fmt: skip
study = {
    "base": {"world": severe, "algorithm": {"optimiser": "adam", "lr": 0.01, "epochs": 2}, "stop": {"rounds": 40}},
    "runs": [{"name": "wait for all", "pace": {"use": "readiness", "cohort": 10}},
             {"name": "two minutes", "pace": {"use": "deadline", "cohort": 10, "seconds": 120}},
             {"name": "seven of ten", "pace": {"use": "readiness", "cohort": 10, "ready_share": 0.7}}],
    "seeds": 5,
    "baseline": "wait for all",
}  # fmt: skip
print(fedfleet.study(study, model=model, data=(x, y, person), out="runs/newcomer"))
