"""Errands come back one by one, each with its own end; a cluster is played."""

from types import SimpleNamespace

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.runtime.executors import errands as module
from fedfleet.runtime.executors.errands import errands, run_errand
from fedfleet.runtime.executors.ray import Cluster


class RayError(Exception):
    pass


class Promise:
    def __init__(self, give):
        self.give = give


def cluster(closed):
    """A cluster that does a task when its result is asked for."""

    def remote(**_):
        return lambda function: SimpleNamespace(remote=lambda *given: Promise(lambda: function(*given)))

    ray = SimpleNamespace(
        remote=remote,
        wait=lambda promises, num_returns: (promises[-1:], promises[:-1]),
        get=lambda promise: promise.give(),
        exceptions=SimpleNamespace(RayError=RayError),
    )
    return Cluster(ray, 2, lambda: closed.append(True))


def work(piece, tell):
    tell({"heard": "by nobody"})
    if piece["n"] == 1:
        raise BadInput("not this one")
    if piece["n"] == 2:
        raise RayError("trace\nthe node is gone")
    return {"twice": 2 * piece["n"]}


@pytest.fixture
def closed(monkeypatch):
    found = []
    monkeypatch.setattr(module, "connect", lambda workers, address, threads: cluster(found))
    monkeypatch.setattr(
        module,
        "run_errand",
        lambda work, piece: work(piece, lambda body: None) if piece["n"] == 2 else run_errand(work, piece),
    )
    return found


def test_every_piece_has_one_end_and_the_connection_is_closed(closed):
    said = {s.piece: s for s in errands(work, [{"n": n} for n in range(4)], workers=None, address=None)}
    assert all(s.ended for s in said.values())
    assert [said[n].body for n in (0, 3)] == [{"twice": 0}, {"twice": 6}]
    assert said[1].failure == "not this one"
    assert said[2].failure.endswith("is this fedfleet installed there? the node is gone")
    assert closed == [True]


def test_whoever_stops_listening_closes_the_connection(closed):
    listening = errands(work, [{"n": 0}, {"n": 3}], workers=1, address=None)
    next(listening)
    listening.close()
    assert closed == [True]
