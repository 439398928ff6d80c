"""Whole fleets of the command line's own processes: a spec, its server, its devices, and the same spec simulated."""

from __future__ import annotations

import os
import signal
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from fedfleet.app.runs import perform
from fedfleet.app.spec import load_spec
from fedfleet.core.trees import content_hash
from fedfleet.store.files import load_tree
from tests.network.harness import ROOT, Ground, ground
from tests.network.toys import Toy
from tests.processes import start

BASE = """
seed = 5
[task]
use = "{task}"
[world]
clients = {clients}
data = {{ use = "dirichlet", alpha = 0.5 }}
[algorithm]
{algorithm}
[pace]
use = "readiness"
cohort = {cohort}
t_break = 0.05
min_clients = 1
[stop]
rounds = {rounds}
[run]
execute = "inline"
threads = 1
"""
# What must come out of a real network as it comes out of a simulation, to the last bit.
METHODS = {
    "fedavg": 'use = "fedavg"',
    "fedprox": 'use = "fedprox"\nmu = 0.1',
    "scaffold": 'use = "scaffold"',
    "fedbuff's fold": 'use = "fedbuff"',
    "int8 up and down": 'use = "fedavg"\nup = ["int8"]\ndown = ["int8"]',
    "fedrep": 'use = "fedrep"',
}


@dataclass(slots=True)
class Fleet:
    """One spec: where it is, the ground on which it is served, its device processes."""

    place: Ground
    spec: Path
    devices: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    def serve(self, *words: str, resume: bool = False) -> None:
        """Start the server."""
        self.place.serve_spec(self.spec, *words, resume=resume)

    def start(self, *clients: int, server: str = "") -> subprocess.Popen[bytes]:
        """Start one process that is all of these devices, each with a store of its own; they call here, or at this server."""
        store = self.place.folder / "stores"
        command = ["tests.network.devices", server or self.place.address, store, *clients]
        with (self.place.folder / f"devices{clients[0]}.err").open("ab") as err:
            env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
            made = start(*command, stdout=subprocess.DEVNULL, stderr=err, env=env, cwd=ROOT)
        self.devices.append(made)
        return made

    def said(self) -> str:
        """What everybody said."""
        told = [path.read_text()[-3000:] for path in sorted(self.place.folder.glob("devices*.err"))]
        return "\n".join([self.place.said, *told])

    def simulated(self) -> str:
        """The name of the model that the same spec gives in simulation."""
        out = self.place.folder / "simulated"
        perform(load_spec(self.spec, []), out)
        return content_hash(load_tree(out / "model.safetensors")[0])


@contextmanager
def fleet(folder: Path, algorithm: str, *, clients: int, cohort: int | None = None, rounds: int = 2) -> Iterator[Fleet]:
    """A fleet whose processes are all gone at the end."""
    task = "digits_mlp" if "fedrep" in algorithm else "digits_logreg"  # what keeps its head at home needs more than a head
    text = BASE.format(task=task, algorithm=algorithm, clients=clients, cohort=cohort or clients, rounds=rounds)
    tomllib.loads(text)
    spec = folder / "spec.toml"
    spec.write_text(text)
    with ground(folder, Toy(clients=clients)) as place:
        made = Fleet(place, spec)
        try:
            yield made
        finally:
            end(made.devices)


def end(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """End these processes, which the test started."""
    for process in processes:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait(10)
