"""pfl-research's side: its SimulatedBackend, FederatedAveraging and PyTorch model, set up as in its own benchmarks.

    python -m benchmarks.peers.pfl_side FOLDER OUT '{"threads": 2}'
    torchrun --standalone --nproc_per_node 2 -m benchmarks.peers.pfl_side FOLDER OUT '{"threads": 1}'

Tensors lie on the device before the first round, users are weighed alike, nothing is evaluated but in the first (warm-up)
round, and no metric is printed. `torch.compile` is left off, as it is there: its wrapper would not reach `loss` anyway.
"""

# pyright: reportMissingImports=false
# Installed in .venv-peers, not here.
from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.peers.work import CHECKED, State, Work, intervals, read_work, wait, write_result


class Scored(torch.nn.Module):
    """A network with the two methods that pfl asks for."""

    def __init__(self, net: torch.nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self(x), y)

    @torch.no_grad()
    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        from pfl.metrics import Weighted

        return {"loss": Weighted(float(self.loss(x, y)) * len(y), len(y))}


def method_of(name: str, work: Work) -> tuple[Any, Any]:
    """Its algorithm of this name with its parameters; SCAFFOLD keeps what users remember in memory, its fastest way."""
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.algorithm.fedprox import FedProx, FedProxParams
    from pfl.algorithm.scaffold import SCAFFOLD, SCAFFOLDParams
    from pfl.data.user_state import InMemoryUserStateStorage

    usual: dict[str, Any] = {
        "central_num_iterations": work.warm + work.rounds,
        "evaluation_frequency": 10**9,
        "train_cohort_size": work.cohort,
        "val_cohort_size": 0,
    }
    match name:
        case "fedavg":
            return FederatedAveraging(), NNAlgorithmParams(**usual)
        case "fedprox":
            return FedProx(), FedProxParams(**usual, mu=0.1)
        case "scaffold":
            kept = {"user_state_storage": InMemoryUserStateStorage(), "population": work.cohort}
            return SCAFFOLD(), SCAFFOLDParams(**usual, use_gradient_as_control_variate=False, **kept)
        case _:
            raise SystemExit(f"pfl has no {name}")


def main(folder: Path, out: Path, asked: dict[str, Any]) -> None:
    """All rounds in one run of pfl's algorithm; a callback looks at the clock after each."""
    work, net, x, y = read_work(folder)
    if work.device == "cpu":
        os.environ["PFL_PYTORCH_DEVICE"] = "cpu"
    torch.set_num_threads(asked["threads"])

    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.internal.ops import pytorch_ops
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    stamps: list[float] = []
    checked: State = {}

    class Clock(TrainingProcessCallback):
        def on_train_begin(self, *, model):
            del model
            stamps.append(time.perf_counter())
            return Metrics()

        def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
            del aggregate_metrics, model
            if central_iteration + 1 == CHECKED:
                checked.update({n: v.clone() for n, v in scored.net.state_dict().items()})
            wait(work.device)
            stamps.append(time.perf_counter())
            return False, Metrics()

    device = pytorch_ops.get_default_device()
    users = [PyTorchTensorDataset((x[i].to(device), y[i].to(device)), user_id=str(i)) for i in range(work.cohort)]
    data = FederatedDataset(lambda i: users[i], get_user_sampler("minimize_reuse", range(work.cohort)))
    scored = Scored(net).to(device)
    model = PyTorchModel(scored, torch.optim.SGD, torch.optim.SGD(scored.parameters(), lr=1.0))
    method, params = method_of(asked.get("method", "fedavg"), work)
    method.run(
        params,
        SimulatedBackend(data, data),
        model,
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=work.lr, local_batch_size=work.batch),
        NNEvalHyperParams(local_batch_size=work.batch),
        [Clock()],
        send_metrics_to_platform=False,
    )
    if pytorch_ops.distributed.global_rank == 0:
        write_result(out, intervals(stamps, work), checked, ["pfl", "torch", "numpy"])
    if torch.distributed.is_initialized():
        # Everything is written. Left to itself, a process with a group of gloo sometimes aborts while Python shuts down (seen
        # with torch 2.13, with the group destroyed before or not), and the launcher would call the run failed.
        torch.distributed.barrier()
        os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
