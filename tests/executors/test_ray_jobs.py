"""Ray jobs come back one by one, each with its own end, on a fake cluster."""

import asyncio
from types import SimpleNamespace

import pytest

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.executors import ray as ours
from fedfleet.executors.ray import Cluster
from fedfleet.executors.ray_jobs import Mailbox, run_piece, run_ray_jobs
from fedfleet.executors.worker_jobs import versions


class RayError(Exception):
    pass


class Died(RayError):
    pass


class Promise:
    def __init__(self, give):
        self.give = give


class FakeMailbox:
    """Takes messages at once; with `broken`, reading it raises as a dead actor does."""

    def __init__(self, broken):
        self.messages, self.promise, self.broken = [], None, broken
        self.put = SimpleNamespace(remote=lambda piece, body: self.messages.append((piece, body)))
        self.get_all = SimpleNamespace(remote=self.ask)

    def ask(self):
        self.promise = Promise(self.read)
        return self.promise

    def read(self):
        if self.broken:
            raise RayError("the actor died")
        messages, self.messages = self.messages, []
        return messages


def cluster(asked=None, cancelled=None, *, keeps=True, gpus=0, head="", broken=False):
    """A cluster that does a task when it gets it; messages come first, then the last task."""
    mailboxes = []

    def remote(**options):
        def made(what):
            if what is Mailbox:
                assert options == {"num_cpus": 0}, "it takes no place from those who work"
                return SimpleNamespace(remote=lambda: mailboxes.append(FakeMailbox(broken)) or mailboxes[-1])
            if asked is not None:
                asked.update(options)
            return SimpleNamespace(remote=done)

        return made

    def done(work, piece, *rest):
        if piece["n"] in (2, 4):
            return Promise(lambda: fails(piece["n"]))
        body = run_piece(work, piece, *rest)
        return Promise(lambda: body)

    def fails(n):
        raise RayError("trace\nthe node is gone") if n == 2 else Died("killed")

    def wait(promises, num_returns, timeout):
        if not keeps:
            return [], promises
        (mailbox,) = mailboxes
        if mailbox.messages and mailbox.promise in promises:
            return [mailbox.promise], []
        return [p for p in promises if p is not mailbox.promise][-1:], []

    ray = SimpleNamespace(
        remote=remote,
        wait=wait,
        get=lambda promise: promise.give(),
        cancel=lambda promise, force: cancelled.append(promise),
        cluster_resources=lambda: {"CPU": 2.0, "GPU": gpus},
        exceptions=SimpleNamespace(RayError=RayError, WorkerCrashedError=Died, NodeDiedError=Died, OutOfMemoryError=Died),
    )
    return Cluster(ray, 2, lambda: None, task_cpus=3, head=head)


def work(piece, tell):
    tell({"round": piece["n"]})
    if piece["n"] == 1:
        raise BadInput("not this one")
    return {"twice": 2 * piece["n"]}


@pytest.mark.parametrize("broken", [False, True])
def test_every_piece_has_one_end_and_deaths_are_counted(broken):
    news = list(run_ray_jobs(cluster(broken=broken), work, [{"n": n} for n in range(5)]))
    said = {s.piece: s for s in news if s.ended}
    assert len(said) == sum(s.ended for s in news) == 5
    assert [said[n].body for n in (0, 3)] == [{"twice": 0}, {"twice": 6}]
    assert said[1].failure == "not this one"
    assert (
        said[2].failure.endswith("check that the same fedfleet is installed on the workers: the node is gone")
        and not said[2].deaths
    )
    assert "its Ray worker died 4 times" in said[4].failure and said[4].deaths == 4
    assert [(s.piece, s.body) for s in news if not s.ended] == ([] if broken else [(n, {"round": n}) for n in (0, 1, 3)])


def test_whose_end_was_told_has_no_more_to_say():
    """A word that overtakes nobody: it would make a failed run one that went well."""
    played = cluster()
    waits, ends = played.ray.wait, []

    def last(promises, num_returns, timeout):  # the end first, and then what was said before it
        result = promises[-2:-1] if not ends else waits(promises, num_returns, timeout)[0]
        ends.extend(result)
        return result, []

    played.ray.wait = last
    news = list(run_ray_jobs(played, work, [{"n": 0}, {"n": 1}]))
    assert [(s.piece, s.ended) for s in news] == [(1, True), (0, False), (0, True)]


def test_an_ear_gives_what_was_said_once():
    async def play():
        ear = Mailbox()
        asked = asyncio.create_task(ear.get_all())
        await asyncio.sleep(0)
        assert not asked.done(), "it waits until there is something"
        await ear.put(3, {"round": 1})
        await ear.put(3, {"round": 2})
        first = await asked
        await ear.put(4, {"round": 9})
        return first, await ear.get_all()

    assert asyncio.run(play()) == ([(3, {"round": 1}), (3, {"round": 2})], [(4, {"round": 9})])


@pytest.mark.parametrize(("there", "wanted"), [(1, 1), (0, 0)])
def test_pieces_ask_for_their_processors_and_for_a_gpu_where_there_is_one(there, wanted):
    asked = {}
    list(run_ray_jobs(cluster(asked, gpus=there), work, [{"n": 0}], gpus=1))
    assert (asked["num_cpus"], asked["num_gpus"]) == (3, wanted)


def test_whoever_stops_listening_calls_off_the_rest():
    cancelled = []
    listening = run_ray_jobs(cluster(cancelled=cancelled), work, [{"n": 0}, {"n": 3}])
    assert next(said for said in listening if said.ended)
    listening.close()
    assert len(cancelled) == 1


def test_a_worker_with_another_torch_refuses():
    others = tuple((name, "0.0" if name == "torch" else its) for name, its in versions())
    assert (
        "a Ray worker cannot run this job: this worker has torch"
        in run_piece(work, {"n": 0}, others, FakeMailbox(broken=False), 0)["failure"]
    )


def test_a_head_that_is_gone_is_said_after_some_looks(monkeypatch):
    looks = iter(["", "refused", "", "refused", "refused", "refused"])
    monkeypatch.setattr(ours, "unreachable_reason", lambda address: next(looks))
    with pytest.raises(RunFailed, match=r"10\.0\.0\.5:6379 does not answer any more"):
        list(run_ray_jobs(cluster(cancelled=[], keeps=False, head="10.0.0.5:6379"), work, [{"n": 0}]))
    assert not list(looks)
