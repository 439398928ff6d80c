"""Your own model on activity data by person, on a severe fleet, under three pacings and five seeds: `python examples/newcomer.py`.

Uses $FEDFLEET_DATA/wisdm51/windows200x3.npz (watch movements of 51 people) if it is there, else a made-up stand-in of the same shape.
"""

import os
from pathlib import Path

import numpy as np
import torch

import fedfleet

file = Path(os.environ.get("FEDFLEET_DATA", "../shared/data")) / "wisdm51/windows200x3.npz"
if file.exists():
    windows = np.load(file)
    x, y, person = windows["x"].transpose(0, 2, 1).astype("float32"), windows["y"], windows["user"]
else:
    rng = np.random.default_rng(0)
    y, person = rng.integers(0, 6, 1500), rng.integers(0, 51, 1500)
    x = (np.sin(np.arange(200) * (y[:, None, None] + 1) / 9) + rng.normal(0, 1, (1500, 3, 200))).astype("float32")

model = torch.nn.Sequential(
    torch.nn.Conv1d(3, 16, 9, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool1d(8), torch.nn.Flatten(), torch.nn.Linear(128, 6)
)  # fmt: skip
severe = {"clients": 51, "model_bytes": 1e8, "devices": {"use": "dpgmm", "sigma": 1.4, "mean_mbps": 60.0}, "data": "by_owner",
          "states": {"use": "dpcsm", "alpha": 100.0, "start_rank": 150}}  # fmt: skip
study = {
    "name": "newcomer",
    "base": {"world": severe, "algorithm": {"use": "fedavg", "lr": 0.1}, "stop": {"rounds": 40}},
    "runs": [
        {"name": "wait for all", "pace": {"use": "readiness", "cohort": 10}},
        {"name": "two minutes", "pace": {"use": "deadline", "cohort": 10, "seconds": 120}},
        {"name": "seven of ten", "pace": {"use": "readiness", "cohort": 10, "ready_share": 0.7}},
    ],
    "seeds": 5,
    "baseline": "wait for all",
}
found = fedfleet.study(study, model=model, data=(x, y, person), out="runs/newcomer")
print(found)
