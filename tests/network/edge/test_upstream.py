"""An edge as a client of its server: what its folder remembers, and the turn that is its work."""

import json
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.tensor_format import pack_tree
from fedfleet.network.device.client_loop import DeviceResult
from fedfleet.network.device.retries import RetryPolicy
from fedfleet.network.device.work import NoModel, TaskRefusal
from fedfleet.network.edge.edge_plan import CONFIG_FORMAT
from fedfleet.network.edge.turn_store import TurnReport, TurnStore
from fedfleet.network.edge.upstream import EdgeUplink, Turnover
from fedfleet.network.frontend.partial_sums import FoldLayout, layout_to_json
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import crc32c
from fedfleet.network.protocol.turn_format import EdgeSync, EdgeTurn, turn_to_bytes

MODEL = {"w": np.arange(3, dtype=np.float32)}
WAIT = RetryPolicy(sleep=lambda seconds: time.sleep(min(seconds, 1.0) / 100), chance=lambda: 0.5)


def config(**changes):
    table = {
        "form": CONFIG_FORMAT, "edge": 1, "rule": "hierfl", "run": "r", "seed": 7, "keys": ["a", "b"], "sizes": [4, 5],
        "layout": layout_to_json(FoldLayout(MODEL, {}, 1.0, None)), "denominator": None, "most_reports": 2,
        "shared": {"lr": 1.0}, "devices": [{"client": 0}, {"client": 1}], "own_data": False, "moves_samples": False,
    }  # fmt: skip
    return json.dumps({**table, **changes}).encode()


# ---- what the folder remembers -----------------------------------------------------------------------------------------


def test_the_configuration_outlives_a_restart_and_is_that_of_one_run(tmp_path):
    turnover = Turnover(tmp_path)
    turnover.on_config(config())
    again = Turnover(tmp_path)
    assert again.store is not None and again.await_config().devices == ({"lr": 1.0, "client": 0}, {"lr": 1.0, "client": 1})
    again.on_config(config())
    with pytest.raises(BadInput, match="belongs to another run, or to another edge"):
        again.on_config(config(edge=2))


def test_a_configuration_that_is_none_is_refused_and_not_kept(tmp_path):
    with pytest.raises(BadInput, match="is a device, not an edge"):
        Turnover(tmp_path).on_config(b"{}")
    assert Turnover(tmp_path).store is None


def test_who_waits_for_the_configuration_gets_it_or_the_reason_why_there_is_none(tmp_path):
    turnover, got = Turnover(tmp_path / "a"), []
    (tmp_path / "a").mkdir()
    waiting = threading.Thread(target=lambda: got.append(turnover.await_config().seed), daemon=True)
    waiting.start()
    turnover.on_config(config())
    waiting.join(60)
    assert got == [7]
    failed = Turnover(tmp_path / "b")
    failed.on_result(None, BadInput("no server"))
    with pytest.raises(BadInput, match="no server"):
        failed.await_config()
    assert isinstance(failed.error, BadInput)


def test_the_end_of_the_run_outlives_a_restart(tmp_path):
    turnover, ends, result = Turnover(tmp_path), [], DeviceResult(1, 3, 0, "that was all")
    turnover.on_end = lambda: ends.append(turnover.result)
    turnover.on_result(result, None)
    assert ends == [result]
    again = Turnover(tmp_path)
    assert again.result == result
    with pytest.raises(RunFailed, match="was over before this edge came"):
        again.await_config()


# ---- its work ----------------------------------------------------------------------------------------------------------


class Line:
    """A server that has these blobs, whole or damaged."""

    server, uses_tls, worked, call_seconds = "nowhere:1", False, True, 120.0

    def __init__(self, blobs):
        self.blobs = blobs

    def renew(self):
        """Nothing to make anew."""

    def fetch(self, request, seconds):
        yield self.blobs[request.name][request.offset :]


def turn(task):
    return turn_to_bytes(EdgeTurn(task, (EdgeSync(np.array([0, 1]), (None, None)),)))


def work(task, kind=pb.TRAIN, **changes):
    data = turn(task)
    blob = pb.Blob(**{"name": f"t{task}", "nbytes": len(data), "crc32c": crc32c(data), **changes})
    return pb.Work(kind=kind, task=task, nonce=b"n", turn=blob)


def context(*tasks):
    line = Line({f"t{task}": turn(task) for task in tasks})
    return SimpleNamespace(connection=line, caller=pb.Caller(client=1), wait=WAIT, remark=None)


def test_a_turn_is_done_by_the_edges_own_run_and_its_report_goes_up(tmp_path):
    store, model = TurnStore(tmp_path, 2), pack_tree(MODEL)
    store.on_turn = lambda: store.finish(store.last, TurnReport(b"sums", 9.0, {"loss": 0.5, "odd": float("nan")}))
    uplink = EdgeUplink(store)
    head, payload = uplink.carry_out(context(5), work(5), model)
    assert (head.task, head.weight, dict(head.stats), payload) == (5, 9.0, {"loss": 0.5}, b"sums")
    assert (head.nbytes, head.crc32c) == (4, crc32c(b"sums"))
    # Asked again, after a kill or a broken line, it answers at once and begins nothing.
    store.on_turn = lambda: pytest.fail("a turn was begun twice")
    assert uplink.carry_out(context(5), work(5), model) == (head, payload)


@pytest.mark.parametrize("asked", [work(1, pb.EVALUATE), pb.Work(kind=pb.TRAIN, task=1)])
def test_an_edge_does_nothing_but_turns(asked, tmp_path):
    with pytest.raises(TaskRefusal, match="evaluates no models"):
        EdgeUplink(TurnStore(tmp_path, 2)).carry_out(context(1), asked, pack_tree(MODEL))


def test_a_turn_that_does_not_arrive_is_no_fault_of_the_edge(tmp_path):
    store = TurnStore(tmp_path, 2)
    with pytest.raises(NoModel, match="arrived damaged"):
        EdgeUplink(store).carry_out(context(1), work(1, crc32c=1), pack_tree(MODEL))
    assert store.last is None
