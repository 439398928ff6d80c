"""A server, two edges and their devices as threads of one process: the model is that of the simulation."""

import threading
from contextlib import closing
from functools import partial

import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.client_config import client_configs
from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.app.runs import perform
from fedfleet.app.spec import load_spec
from fedfleet.core.errors import BadInput
from fedfleet.core.trees import content_hash
from fedfleet.network.device.client_loop import Device, DeviceOptions
from fedfleet.network.device.device_store import DeviceStore
from fedfleet.network.device.server_calls import Connection
from fedfleet.network.edge.edge_process import EdgeSetup, NoEvaluator, run_edge
from fedfleet.network.security.enrolment import Registry
from fedfleet.network.security.enrolment_request import Terms
from fedfleet.network.security.secrets import run_key
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.serve import serve
from fedfleet.network.server.served_plan import ServedRun
from fedfleet.store import journal as journals
from fedfleet.store.files import load_tree
from fedfleet.store.seals import identity
from tests.network.edge.people import EXACT, HIERFL, SHUFFLE, free_addresses, write_spec
from tests.network.harness import PATIENT

EDGES, EACH = 2, 2
QUIET = {"patience": 300.0, "transmitters": 0, "quiet": True}


class Together:
    """Everything in one process, a thread each; what a thread raised is raised here."""

    def __init__(self, folder, edge, engine="torch"):
        self.folder, self.engine, self.errors, self.answers = folder, engine, [], {}
        words = ["run.execute=numpy"] if engine == "numpy" else []
        self.spec = load_spec(write_spec(folder, edge, edges=EDGES, each=EACH, rounds=2), words)
        self.setup = assemble(self.spec)
        self.server, *self.listen = free_addresses(1 + EDGES)

    def go(self):
        works = {"server": self.serve} | {f"edge {e}": lambda e=e: self.edge(e) for e in range(EDGES)}
        works |= {f"device {e} {p}": lambda e=e, p=p: self.device(e, p) for e in range(EDGES) for p in range(EACH)}
        threads = [threading.Thread(target=self._guarded, args=one, daemon=True) for one in works.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(3 * PATIENT)
        assert not self.errors, self.errors
        assert not any(thread.is_alive() for thread in threads)
        return self

    def _guarded(self, name, work):
        try:
            self.answers[name] = work()
        except BaseException as error:
            self.errors.append((name, repr(error)))

    def serve(self):
        setup, out = self.setup, self.folder / "run"
        (out / "wire").mkdir(parents=True)
        key, journal = run_key(out / "wire" / "run.key"), journals.create(out / "run.db", identity(out, "served"))
        registry = Registry(out / "wire" / "devices.db", key, Terms(setup.plan.clients, open=True))
        config_of = client_configs(setup)
        served = ServedRun(setup.plan, setup.world, NoEvaluator(), registry, key, config_of, journal, out, "test")
        with closing(journal), closing(registry):
            return serve(served, ServeOptions(address=self.server, devices=EDGES, farewell_seconds=1.0, **QUIET))

    def edge(self, edge):
        options = ServeOptions(address=self.listen[edge], farewell_seconds=5.0, **QUIET)
        setup = EdgeSetup(self.folder / f"edge{edge}")
        return run_edge(self.server, setup, DeviceOptions(client=edge), options, lambda text: None)

    def device(self, edge, place):
        with (
            closing(DeviceStore(self.folder / f"device{edge}{place}")) as store,
            closing(Connection(self.listen[edge])) as connection,
        ):
            make = partial(build_client_runtime, engine=self.engine)
            return Device(connection, store, DeviceOptions(client=place, share_samples=True), make, lambda text: None).run()

    def models(self):
        """The served model and the simulated one."""
        simulated = self.folder / "simulated"
        perform(self.spec, simulated)
        return content_hash(self.answers["server"].server.params), content_hash(load_tree(simulated / "model.safetensors")[0])


@pytest.mark.slow
@pytest.mark.parametrize("edge", [HIERFL, EXACT, SHUFFLE], ids=["several averages", "exact sums", "exchange"])
def test_two_edges_with_two_devices_end_as_their_simulation_does(edge, tmp_path):
    fleet = Together(tmp_path, edge, "numpy" if edge == SHUFFLE else "torch").go()
    served, simulated = fleet.models()
    assert served == simulated
    assert [fleet.answers[f"edge {e}"]["turns"] for e in range(EDGES)] == [2, 2]
    if edge == SHUFFLE:
        # Samples moved, by way of the edges and not of the server.
        assert list(tmp_path.glob("device*/samples.bin"))
        assert not list((tmp_path / "run").rglob("samples*"))
        assert not list(tmp_path.glob("edge*/turns/samples*"))  # which devices have now
    else:
        tasks = 2 * 2 if edge == HIERFL else 2  # rounds times averages
        assert all(fleet.answers[f"device {e} {p}"].tasks == tasks for e in range(EDGES) for p in range(EACH))
    # An edge that is started again after the end tells its devices so, and asks no server.
    again = fleet.edge(0)
    assert again["turns"] == 2


def test_an_edge_does_not_listen_where_its_server_does(tmp_path):
    options = ServeOptions(address="127.0.0.1:50061")
    with pytest.raises(BadInput, match="both are 127"):
        run_edge("127.0.0.1:50061", EdgeSetup(tmp_path / "edge"), DeviceOptions(), options, print)
    assert not (tmp_path / "edge").exists()
