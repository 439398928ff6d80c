"""Errands come back one by one, each with its own end; a cluster is played."""

from types import SimpleNamespace

import pytest

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.runtime.executors import ray as ours
from fedfleet.runtime.executors.errands import errands, run_errand
from fedfleet.runtime.executors.parcels import versions
from fedfleet.runtime.executors.ray import Cluster


class RayError(Exception):
    pass


class Died(RayError):
    pass


class Promise:
    def __init__(self, give):
        self.give = give


def cluster(asked=None, cancelled=None, *, keeps=True, gpus=0, head=""):
    """A cluster that does a task when its result is asked for."""

    def remote(**options):
        if asked is not None:
            asked.update(options)
        return lambda function: SimpleNamespace(remote=lambda *given: Promise(lambda: done(*given)))

    def done(work, piece, wanted):
        if piece["n"] in (2, 4):
            raise RayError("trace\nthe node is gone") if piece["n"] == 2 else Died("killed")
        return run_errand(work, piece, wanted)

    ray = SimpleNamespace(
        remote=remote,
        wait=lambda promises, num_returns, timeout: (promises[-1:], promises[:-1]) if keeps else ([], promises),
        get=lambda promise: promise.give(),
        cancel=lambda promise, force: cancelled.append(promise),
        cluster_resources=lambda: {"CPU": 2.0, "GPU": gpus},
        exceptions=SimpleNamespace(
            RayError=RayError, WorkerCrashedError=Died, NodeDiedError=Died, OutOfMemoryError=Died
        ),
    )
    return Cluster(ray, 2, lambda: None, share=3, head=head)


def work(piece, tell):
    tell({"heard": "by nobody"})
    if piece["n"] == 1:
        raise BadInput("not this one")
    return {"twice": 2 * piece["n"]}


def test_every_piece_has_one_end_and_deaths_are_counted():
    said = {s.piece: s for s in errands(cluster(), work, [{"n": n} for n in range(5)])}
    assert all(s.ended for s in said.values())
    assert [said[n].body for n in (0, 3)] == [{"twice": 0}, {"twice": 6}]
    assert said[1].failure == "not this one"
    assert said[2].failure.endswith("is this fedfleet installed there? the node is gone") and not said[2].died
    assert "its Ray worker died 4 times" in said[4].failure and said[4].died == 4


@pytest.mark.parametrize(("there", "wanted"), [(1, 1), (0, 0)])
def test_pieces_ask_for_their_processors_and_for_a_gpu_where_there_is_one(there, wanted):
    asked = {}
    list(errands(cluster(asked, gpus=there), work, [{"n": 0}], gpus=1))
    assert (asked["num_cpus"], asked["num_gpus"]) == (3, wanted)


def test_whoever_stops_listening_calls_off_the_rest():
    cancelled = []
    listening = errands(cluster(cancelled=cancelled), work, [{"n": 0}, {"n": 3}])
    next(listening)
    listening.close()
    assert len(cancelled) == 1


def test_a_worker_with_another_torch_refuses():
    others = tuple((name, "0.0" if name == "torch" else its) for name, its in versions())
    assert "a Ray worker cannot do it: it has torch" in run_errand(work, {"n": 0}, others)["failure"]


def test_a_head_that_is_gone_is_said_after_some_looks(monkeypatch):
    looks = iter(["", "refused", "", "refused", "refused", "refused"])
    monkeypatch.setattr(ours, "_silent", lambda address: next(looks))
    with pytest.raises(RunFailed, match=r"10\.0\.0\.5:6379 does not answer any more"):
        list(errands(cluster(cancelled=[], keeps=False, head="10.0.0.5:6379"), work, [{"n": 0}]))
    assert not list(looks)
