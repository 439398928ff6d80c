"""Flower's side: its simulation engine on Ray, FedAvg with everybody in every round, no evaluation.

    python -m benchmarks.peers.flower_side FOLDER OUT '{"api": "messages", "actors": 2}'

Two ways to write a client: `messages` (what its documentation recommends now) and `numpy` (NumPyClient). One actor per core,
each with one thread. An actor reads the work once and keeps one model, where Flower's examples build one per client.
"""

# pyright: reportMissingImports=false
# Installed in .venv-peers, not here.
from __future__ import annotations

import json
import os
import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from benchmarks.peers.work import CHECKED, State, Work, intervals, read_work, write_result

FOLDER = "FEDFLEET_PEERS_WORK"  # the environment variable that tells actors where the work lies


@lru_cache(maxsize=1)
def bench() -> tuple[Work, torch.nn.Module, torch.Tensor, torch.Tensor]:
    """The work as an actor keeps it, on its device."""
    torch.set_num_threads(1)
    work, module, x, y = read_work(Path(os.environ[FOLDER]))
    return work, module.to(work.device).train(), x.to(work.device), y.to(work.device)


def train_client(state: State, client: int) -> tuple[State, int]:
    """One client's pass: its model afterwards and its number of samples."""
    work, module, x, y = bench()
    module.load_state_dict(state)
    optimiser = torch.optim.SGD(module.parameters(), lr=work.lr)
    for inputs, labels in zip(x[client].split(work.batch), y[client].split(work.batch), strict=True):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(module(inputs), labels).backward()
        optimiser.step()
    return module.state_dict(), len(y[client])


def message_apps(work: Work, first: State, stamps: list[float], checked: State) -> tuple[Any, Any]:
    """Server and client by the message interface."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg

    client, server = ClientApp(), ServerApp()

    @client.train()
    def train(message, context):
        state, samples = train_client(message.content["arrays"].to_torch_state_dict(), int(context.node_config["partition-id"]))
        content = {"arrays": ArrayRecord(state), "metrics": MetricRecord({"num-examples": samples})}
        return Message(content=RecordDict(content), reply_to=message)

    @server.main()
    def main(grid, context):
        del context

        def look(number, arrays):
            stamps.append(time.perf_counter())
            if number == CHECKED:
                checked.update(arrays.to_torch_state_dict())

        # The fraction is taken of the nodes that are there already, in round 1 perhaps none: the minimum makes it everybody.
        everybody = {"min_train_nodes": work.cohort, "min_available_nodes": work.cohort}
        strategy = FedAvg(fraction_train=1.0, fraction_evaluate=0.0, **everybody)
        rounds = work.warm + work.rounds
        strategy.start(grid=grid, initial_arrays=ArrayRecord(first), num_rounds=rounds, evaluate_fn=look)

    return server, client


def numpy_apps(work: Work, first: State, stamps: list[float], checked: State) -> tuple[Any, Any]:
    """Server and client by NumPyClient and the strategy that goes with it."""
    from flwr.client import ClientApp, NumPyClient
    from flwr.common import ndarrays_to_parameters
    from flwr.server import ServerApp, ServerAppComponents, ServerConfig
    from flwr.server.strategy import FedAvg

    names = list(first)

    class Client(NumPyClient):
        def __init__(self, number: int) -> None:
            self.number = number

        def fit(self, parameters, config):
            del config
            state = {n: torch.from_numpy(v) for n, v in zip(names, parameters, strict=True)}
            end, samples = train_client(state, self.number)
            return [v.cpu().numpy() for v in end.values()], samples, {}

    def look(number, parameters, config):
        del config
        stamps.append(time.perf_counter())
        if number == CHECKED:
            checked.update({n: torch.from_numpy(v) for n, v in zip(names, parameters, strict=True)})

    def server(context):
        del context
        strategy = FedAvg(
            fraction_fit=1.0, fraction_evaluate=0.0, min_fit_clients=work.cohort, min_available_clients=work.cohort,
            initial_parameters=ndarrays_to_parameters([v.numpy() for v in first.values()]), evaluate_fn=look,
        )  # fmt: skip
        return ServerAppComponents(config=ServerConfig(num_rounds=work.warm + work.rounds), strategy=strategy)

    app = ClientApp(client_fn=lambda context: Client(int(context.node_config["partition-id"])).to_client())
    return ServerApp(server_fn=server), app


def main(folder: Path, out: Path, asked: dict[str, Any]) -> None:
    """All rounds in one simulation; the server looks at the clock after each. Ray is shut down whatever happens."""
    import ray
    from flwr.simulation import run_simulation

    os.environ[FOLDER] = str(folder.resolve())
    work, module, _, _ = read_work(folder)
    stamps: list[float] = []
    checked: State = {}
    apps = {"messages": message_apps, "numpy": numpy_apps}[asked["api"]]
    server, client = apps(work, dict(module.state_dict()), stamps, checked)
    gpus = 1.0 / asked["actors"] if work.device.startswith("cuda") else 0.0
    settings = {
        "client_resources": {"num_cpus": 1, "num_gpus": gpus},
        "init_args": {"num_cpus": asked["actors"], "include_dashboard": False, "log_to_driver": False},
    }
    try:
        run_simulation(server, client, num_supernodes=work.cohort, backend_config=settings)
    finally:
        ray.shutdown()
    write_result(out, intervals(stamps, work), checked, ["flwr", "ray", "torch", "numpy"])


if __name__ == "__main__":
    from benchmarks.peers import flower_side  # by its name, so that actors import it instead of unpickling it each time

    flower_side.main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
