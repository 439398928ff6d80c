"""One device: what it trains, what it gives up on, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import grpc
import numpy as np
import pytest

from fedfleet.core.container import packed
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.parts import Executor, Job, Offer
from fedfleet.core.sources import DataSource
from fedfleet.core.trees import content_hash
from fedfleet.runtime.wire import device
from fedfleet.runtime.wire import fleet_pb2 as pb
from fedfleet.runtime.wire.desk import TaskDesk
from fedfleet.runtime.wire.device import Rebuilt, attend, call, train
from fedfleet.runtime.wire.framing import offer_to_bytes
from fedfleet.runtime.wire.service import Service, listening
from fedfleet.testing.toys import consensus, consensus_start, opaque_executor
from tests.runtime.wire.toys import LOOPBACK
from tests.worlds import even_fleet, world_of

WORLD = world_of(even_fleet(3))
KIT = Rebuilt(consensus(), WORLD, opaque_executor(), "toy")


def test_a_device_gives_up_when_no_server_answers(monkeypatch) -> None:
    monkeypatch.setattr(device, "PATIENCE_SECONDS", 0.5)
    rebuild: Callable[[str], Rebuilt] = lambda text: pytest.fail("nobody answered")  # noqa: E731
    with pytest.raises(BadInput, match="no server answers"):
        attend("127.0.0.1:1", 0, rebuild)
    with pytest.raises(BadInput, match="HOST:PORT"):
        attend("nowhere", 0, rebuild)
    with pytest.raises(BadInput, match="--client"):
        attend("127.0.0.1:1", -1, rebuild)


def test_a_device_that_understands_another_run_does_not_take_part() -> None:
    desk = TaskDesk(2)
    with listening(Service(desk, "the spec", "toy"), desk, LOOPBACK, 1 << 20) as (address, server):
        server.start()
        seen: list[str] = []

        def rebuild(text: str) -> Rebuilt:
            seen.append(text)
            return replace(KIT, spec_digest="another")

        with pytest.raises(BadInput, match="means another run by its spec"):
            attend(address, 0, rebuild)
        assert seen == ["the spec"]
        with pytest.raises(BadInput, match="refuses: there is no client 2: this fleet has clients 0 to 1"):
            attend(address, 2, rebuild)


# ---- training -----------------------------------------------------------------------------------------------------


def test_a_device_does_what_a_simulation_would() -> None:
    work = pb.Work(task=9, round=1, tensors=packed(consensus_start()), steps=0, share=1.0, seed=5)
    job = Job(9, 2, int(WORLD.keys[2]), 5, Offer(consensus_start()), consensus().local(2, {}), np.zeros(0, np.int64))
    (wanted,) = opaque_executor().train([job])
    found = train(KIT, 2, work)
    assert (found.task, found.client, found.weight, found.stats) == (9, 2, wanted.weight, wanted.stats)
    assert content_hash(found.update) == content_hash(wanted.update)


def test_a_device_trains_the_share_the_steps_and_the_extras_that_it_is_given() -> None:
    seen: list[Job] = []

    def noting(jobs):
        seen.extend(jobs)
        return opaque_executor().train(jobs)

    rows = np.arange(10)
    data = DataSource(lambda client, split, round: rows + 100 * round, lambda round: np.full(3, 10), rows[:0], rows[:0])
    kit = replace(KIT, world=replace(WORLD, data=data), execute=Executor("noting", noting, lambda trials: []))
    offered = offer_to_bytes(Offer(consensus_start(), {"code": np.ones(2)}))
    train(kit, 1, pb.Work(task=3, round=2, tensors=offered, steps=4, share=0.25, seed=5))
    (job,) = seen
    assert job.rows.tolist() == [200, 201, 202]
    assert (job.steps, job.key, job.seed) == (4, int(WORLD.keys[1]), 5)
    assert job.offer.extra["code"].tolist() == [1.0, 1.0]


def test_a_damaged_offer_is_said_with_client_and_task() -> None:
    with pytest.raises(RunFailed, match="client 1, task 3: the server's offer is damaged"):
        train(KIT, 1, pb.Work(task=3, tensors=b"\x80\x04pickle", share=1.0))


# ---- calls --------------------------------------------------------------------------------------------------------


class Fault(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode, details: str = "why") -> None:
        super().__init__()
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details


def failing(*faults: grpc.StatusCode) -> Callable[..., str]:
    waiting = list(faults)

    def method(request: object, timeout: float) -> str:
        if waiting:
            raise Fault(waiting.pop(0))
        return f"answer to {request}"

    return method


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that moves only when a device pauses; the pauses that it made."""
    made: list[float] = []
    monkeypatch.setattr(device.time, "sleep", made.append)
    monkeypatch.setattr(device.time, "monotonic", lambda: sum(made))
    return made


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED], ids=str)
def test_a_server_out_of_reach_is_called_again_with_growing_pauses(pauses: list[float], code: grpc.StatusCode) -> None:
    assert call(failing(*[code] * 7), "this", "here") == "answer to this"
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


def test_patience_ends(pauses: list[float]) -> None:
    with pytest.raises(BadInput, match=r"no server answers at here \(why\)"):
        call(failing(*[grpc.StatusCode.UNAVAILABLE] * 1000), "this", "here")
    assert sum(pauses) <= device.PATIENCE_SECONDS < sum(pauses) + 2.0


def test_a_refusal_or_a_failure_is_not_tried_again(pauses: list[float]) -> None:
    with pytest.raises(BadInput, match="the server at here refuses: why"):
        call(failing(grpc.StatusCode.FAILED_PRECONDITION), "this", "here")
    with pytest.raises(RunFailed, match="the server at here failed: INTERNAL: why"):
        call(failing(grpc.StatusCode.INTERNAL), "this", "here")
    assert pauses == []


class Stub:
    """A server that answers in turn, and notes the reports."""

    def __init__(self, *answers: pb.PullReply) -> None:
        self.answers, self.reports = list(answers), list[pb.ReportRequest]()

    def Pull(self, request: pb.PullRequest, timeout: float) -> pb.PullReply:  # noqa: N802
        return self.answers.pop(0)

    def Report(self, request: pb.ReportRequest, timeout: float) -> pb.ReportReply:  # noqa: N802
        self.reports.append(request)
        return pb.ReportReply(accepted=len(self.reports) != 1)


def test_a_device_works_and_waits_until_it_is_over_and_counts_what_was_accepted(pauses: list[float]) -> None:
    work = [pb.PullReply(work=pb.Work(task=t, tensors=packed(consensus_start()), share=1.0, seed=5)) for t in (4, 5)]
    waits = [pb.PullReply(wait=pb.Wait(seconds=s)) for s in (0.5, 100.0, -1.0)]
    stub = Stub(work[0], *waits, work[1], pb.PullReply(over=pb.Over(reason="rounds")))
    assert device._work_until_over(stub, "here", 1, KIT) == 1  # type: ignore[arg-type]
    assert [(r.task, r.client, r.weight, dict(r.stats)) for r in stub.reports] == [
        (4, 1, 1.0, {"loss": 1.0}),
        (5, 1, 1.0, {"loss": 1.0}),
    ]
    assert pauses == [0.5, 2.0, 0.0]


def test_a_device_says_how_long_it_fetched_and_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(
        [0.0, 0.0, 9.0, 15.0]
    )  # it asks (and may give up later), has the work 9 s later, and is done 6 s after that
    monkeypatch.setattr(device.time, "monotonic", lambda: next(ticks, 20.0))
    work = pb.Work(task=4, tensors=packed(consensus_start()), share=1.0, seed=5, held=7.0)
    stub = Stub(pb.PullReply(work=work), pb.PullReply(over=pb.Over(reason="rounds")))
    device._work_until_over(stub, "here", 1, KIT)  # type: ignore[arg-type]
    assert dict(stub.reports[0].spent) == {"download": 2.0, "compute": 6.0}


def test_an_answer_that_nobody_knows_is_a_failure() -> None:
    with pytest.raises(RunFailed, match="which this FedFleet does not know"):
        device._work_until_over(Stub(pb.PullReply()), "here", 1, KIT)  # type: ignore[arg-type]
