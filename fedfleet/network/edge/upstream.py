"""An edge as a client of its server: a device whose training is a turn of its own devices."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from fedfleet.core.errors import BadInput, FedFleetError, Refused, RunFailed
from fedfleet.core.json_text import parse_json
from fedfleet.network.device.call_errors import NotFound
from fedfleet.network.device.client_loop import Device, DeviceOptions, DeviceResult
from fedfleet.network.device.device_store import DeviceStore
from fedfleet.network.device.retries import RetryPolicy
from fedfleet.network.device.server_calls import Connection
from fedfleet.network.device.transfers import TooLate, fetch_blob
from fedfleet.network.device.work import Fetch, NoModel, TaskRefusal, WorkContext, head_of
from fedfleet.network.edge.edge_plan import EdgeConfig, read_config
from fedfleet.network.edge.turn_store import TurnStore
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import MOST_STATS, offer_from_bytes
from fedfleet.store.files import write_atomically


class Turnover:
    """What the thread that talks to the server and the edge's own run tell each other. `store` is made with the configuration."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path, self._end_path = folder, folder / "edge.json", folder / "end.json"
        self._changed = threading.Condition()
        self._config: tuple[bytes, EdgeConfig] | None = None
        self._error: BaseException | None = None
        self.store: TurnStore | None = None
        # How the server's run ended, and what is called then.
        self.result: DeviceResult | None = None
        self.on_end: Callable[[], None] = _nothing
        if self._path.is_file():
            self._take(self._path.read_bytes())
        if self._end_path.is_file():
            self.result = DeviceResult(**parse_json(self._end_path.read_bytes()))

    def _take(self, data: bytes) -> None:
        config = read_config(data)
        with self._changed:
            self.store = self.store or TurnStore(self._folder / "turns", len(config.keys))
            self._config = data, config
            self._changed.notify_all()

    def on_config(self, data: bytes) -> None:
        """The server enrolled this edge; it must be the run that this folder is of."""
        if self._config is not None and self._config[0] != data:
            raise BadInput(f"--store: {self._folder} belongs to another run, or to another edge of this run; give another folder")
        if self._config is None:
            try:
                self._take(data)
            except Refused as error:
                raise BadInput(str(error)) from None
            write_atomically(self._path, data)

    def await_config(self) -> EdgeConfig:
        """The configuration, as soon as a server has enrolled this edge."""
        with self._changed:
            self._changed.wait_for(lambda: self._config is not None or self._error is not None or self.result is not None)
        if self._config is None:
            raise self._error or RunFailed("the run was over before this edge came")
        return self._config[1]

    def on_result(self, result: DeviceResult | None, error: BaseException | None) -> None:
        """The thread that talks to the server has ended. The end of the run is on the disk, for an edge that is killed while its
        devices are told."""
        if result is not None:
            write_atomically(self._end_path, json.dumps(asdict(result)).encode())
        with self._changed:
            self.result, self._error = result, error
            self._changed.notify_all()
        self.on_end()

    @property
    def error(self) -> BaseException | None:
        """Why the thread that talks to the server ended early."""
        return self._error


class EdgeUplink:
    """The edge's half of a task: the turn is fetched, carried out by the edge's own run, and its report goes up."""

    def __init__(self, store: TurnStore) -> None:
        self._store = store

    def carry_out(self, context: WorkContext, work: pb.Work, model: bytes) -> tuple[pb.Report, bytes]:
        """The report on this work, when the devices have done it. A turn that began before a kill goes on."""
        if work.kind != pb.TRAIN or not work.turn.name:
            raise TaskRefusal("an edge evaluates no models; serve the run with --evaluate server")
        until = math.inf
        try:
            data = fetch_blob(context.connection, context.caller, work.turn, context.wait, until, context.remark)
        except (Refused, TooLate, NotFound) as error:
            raise NoModel(str(error)) from error
        last = self._store.last
        if last is not None:
            self._store.await_report(last)
        stored = self._store.begin(work.task, model, offer_from_bytes(model).params, data)
        report = self._store.await_report(stored)
        head = head_of(work, context.caller, report.payload)
        head.weight = report.weight
        head.stats.update(dict([(n, v) for n, v in report.stats.items() if math.isfinite(v)][:MOST_STATS]))
        return head, report.payload


def attend(turnover: Turnover, connection: Connection, folder: Path, options: DeviceOptions, say: Callable[[str], None]) -> None:
    """Be a client of the server until its run is over; to be run in a thread of its own."""
    result: DeviceResult | None = None
    error: BaseException | None = None
    store: DeviceStore | None = None
    try:
        store = DeviceStore(folder / "upstream")

        def make_uplink(config: bytes, *, fetch: Fetch) -> EdgeUplink:
            del config, fetch
            assert turnover.store is not None
            return EdgeUplink(turnover.store)

        device = Device(connection, store, options, make_uplink, say, RetryPolicy(), turnover.on_config)
        result = device.run()
    except (FedFleetError, OSError) as odd:
        error = odd
    except BaseException as odd:
        error = odd
        raise
    finally:
        if store is not None:
            store.close()
        turnover.on_result(result, error)


def _nothing() -> None:
    """Nobody listens."""
