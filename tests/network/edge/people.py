"""Fleets with edges: the command line's own server and edges as processes, devices as threads of one process for each edge."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fedfleet.app.runs import perform
from fedfleet.app.spec import load_spec
from fedfleet.core.trees import content_hash
from fedfleet.store.files import load_tree
from tests.network.fleets import end
from tests.network.harness import PATIENT, ROOT, Ground, ground, wait_for
from tests.network.toys import Toy

BASE = """
seed = 5
[task]
use = "digits_logreg"
[world]
clients = {clients}
data = {{ use = "dirichlet", alpha = 0.5 }}
users = {{ use = "households", devices = [{each}, {each}] }}
[algorithm]
use = "{algorithm}"
batch = 32
[edge]
{edge}
[pace]
use = "readiness"
cohort = {edges}
t_break = 0.05
min_clients = 1
[stop]
rounds = {rounds}
[run]
execute = "inline"
threads = 1
"""
HIERFL = 'use = "hierfl"\nkappa1 = 3\nkappa2 = 2'
EXACT = 'use = "hierfl"\nkappa1 = 3\nkappa2 = 1'
SOME = 'use = "hierfl"\nkappa1 = 2\nkappa2 = 3\nshare = 0.5'
SHUFFLE = 'use = "shufflefl"'
FEDGS = 'use = "fedgs"\nper_sync = 2\nrandom = 1\nsyncs = 6\nbatch = 16'


@dataclass(slots=True)
class People:
    """One spec, its server, and for each edge its process and that of its devices."""

    place: Ground
    spec: Path
    edges: int
    each: int
    listen: list[str]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict[str, subprocess.Popen[bytes]])

    def serve(self, *, resume: bool = False) -> None:
        """Start the server."""
        self.place.serve_spec(self.spec, "--devices", str(self.edges), "--patience", "300", resume=resume)

    def start_edge(self, edge: int) -> None:
        """Start an edge, or start it again with the same command."""
        store, listen = str(self.place.folder / f"edge{edge}"), self.listen[edge]
        words = ["--upstream", self.place.address, "--listen", listen, "--client", str(edge), "--store", store, "--patience", "300"]
        self._start(f"edge{edge}", [sys.executable, "-m", "fedfleet.app.cli.main", "edge", *words, "--json"])

    def start_devices(self, edge: int) -> None:
        """Start the devices of an edge."""
        store = str(self.place.folder / f"devices{edge}")
        self._start(f"devices{edge}", [sys.executable, "-m", "tests.network.devices", self.listen[edge], store, *self._places()])

    def start(self) -> None:
        """Start everything."""
        self.serve()
        self.place.await_listening()
        for edge in range(self.edges):
            self.start_edge(edge)
        for edge in range(self.edges):
            # A device that never reached its server gives up after half a minute, and a busy machine needs longer than that.
            wait_for(lambda edge=edge: self._listens(edge), f"edge {edge} that listens", seconds=3 * PATIENT, said=self.said)
            self.start_devices(edge)

    def kill(self, name: str) -> None:
        """SIGKILL of an edge, of the devices of one, or of all processes of the server; started again at once."""
        if name == "server":
            self.place.kill_everything()
            self.serve(resume=True)
            return
        process = self.processes[name]
        process.kill()
        process.wait()
        kind, edge = name[:-1], int(name[-1])
        self.start_edge(edge) if kind == "edge" else self.start_devices(edge)

    def running(self, name: str) -> bool:
        """Has it not ended?"""
        process = self.place.server if name == "server" else self.processes[name]
        return process is not None and process.poll() is None

    def said(self) -> str:
        """What everybody said."""
        return "\n".join([self.place.said, *(p.read_text()[-3000:] for p in sorted(self.place.folder.glob("*[0-9].err")))])

    def simulated(self) -> str:
        """The name of the model that the same spec gives in simulation."""
        out = self.place.folder / "simulated"
        perform(load_spec(self.spec, []), out)
        return content_hash(load_tree(out / "model.safetensors")[0])

    def _listens(self, edge: int) -> bool:
        host, _, port = self.listen[edge].partition(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    def _places(self) -> list[str]:
        return [str(place) for place in range(self.each)]

    def _start(self, name: str, command: list[str]) -> None:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        with (self.place.folder / f"{name}.err").open("ab") as err:
            self.processes[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=err, env=env, cwd=ROOT)


def write_spec(folder: Path, edge: str, *, edges: int, each: int, rounds: int, algorithm: str = "fedavg") -> Path:
    """The spec of such a fleet."""
    text = BASE.format(clients=edges * each, each=each, edge=edge, edges=edges, rounds=rounds, algorithm=algorithm)
    tomllib.loads(text)
    spec = folder / "spec.toml"
    spec.write_text(text)
    return spec


@contextmanager
def people(folder: Path, edge: str, *, edges: int, each: int, rounds: int, algorithm: str = "fedavg") -> Iterator[People]:
    """Such a fleet, whose processes are all gone at the end."""
    spec = write_spec(folder, edge, edges=edges, each=each, rounds=rounds, algorithm=algorithm)
    with ground(folder, Toy(clients=edges)) as place:
        made = People(place, spec, edges, each, free_addresses(edges))
        try:
            yield made
        finally:
            end(made.processes.values())


def free_addresses(count: int) -> list[str]:
    """Addresses at which nobody listens."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    addresses = ["{}:{}".format(*probe.getsockname()) for probe in probes]
    for probe in probes:
        probe.close()
    return addresses
