"""An own PyTorch model on own arrays, on a fleet of unlike devices: `python examples/own_model.py`."""

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

result = fedfleet.run(spec, model=model, data=(x, y, owner))
m = result.metrics
print(f"accuracy {m['accuracy']:.3f} after {m['rounds']} rounds, {m['virtual_seconds'] / 60:.0f} virtual minutes")
print(
    f"{m['participation']['never']} of 25 clients never took part; {m['wasted']['share']:.0%} of device time was wasted"
)
model.load_state_dict({name: torch.from_numpy(value) for name, value in result.params.items()})
