"""The work that every system is given, as a folder of three files, and what each gives back.

`work.json` has the sizes, `data.npz` each client's samples in the order in which they are visited, `module.pt` the model with
its first weights. Needs numpy and torch alone, and this package's networks: a peer reads it with its own Python.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

State = dict[str, torch.Tensor]
# Models are compared after this round: late enough to see that a mean is what the next round begins with, and before a last
# bit of that mean has turned a unit on or off somewhere, which grows from round to round in any of the systems.
CHECKED = 2


@dataclass(frozen=True, slots=True)
class Work:
    """Sizes of the work: in each round, `cohort` clients take `steps` plain SGD steps; then one mean. `warm` rounds go first."""

    task: str
    cohort: int
    steps: int
    batch: int
    lr: float
    warm: int
    rounds: int
    device: str
    tf32: bool


def write_work(folder: Path, work: Work, module: torch.nn.Module, x: np.ndarray, y: np.ndarray) -> None:
    """Lay the work down for everybody; x and y are [clients, samples, ..]."""
    (folder / "work.json").write_text(json.dumps(asdict(work)))
    np.savez(folder / "data.npz", x=x, y=y)
    torch.save(module, folder / "module.pt")


def read_work(folder: Path) -> tuple[Work, torch.nn.Module, torch.Tensor, torch.Tensor]:
    """The sizes, the model on the CPU, and the samples [clients, samples, ..] on the CPU."""
    work = Work(**json.loads((folder / "work.json").read_text()))
    with np.load(folder / "data.npz") as data:
        x, y = torch.from_numpy(data["x"]), torch.from_numpy(data["y"])
    module = torch.load(folder / "module.pt", weights_only=False)  # written by us a moment ago
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = work.tf32
    return work, module, x, y


def write_result(folder: Path, seconds: list[float], model: State, packages: list[str], note: str = "") -> None:
    """Seconds of each timed round, the model after round CHECKED, and which versions made it."""
    arrays: dict[str, Any] = {n: v.detach().cpu().numpy() for n, v in model.items()}
    np.savez(folder / "model.npz", **arrays)
    found = {name: _version(name) for name in packages}
    (folder / "result.json").write_text(json.dumps({"seconds": seconds, "versions": found, "note": note}))


def read_result(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a system wrote."""
    with np.load(folder / "model.npz") as data:
        return json.loads((folder / "result.json").read_text()), dict(data)


def intervals(stamps: list[float], work: Work) -> list[float]:
    """Seconds of the timed rounds from the times at which the rounds ended, the start first."""
    return [b - a for a, b in pairwise(stamps)][work.warm :]


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def wait(device: str) -> None:
    """Until the accelerator has done what it was given."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
