"""A hostile served fleet: whatever liars declare and whenever their reports come, no honest report is refused, and the model that
follows from the reports of a round is the same to the last bit."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedfleet.core import aggregation
from fedfleet.core.events import Evaluated, ModelCommitted, ReportRejected, TimerFired
from fedfleet.core.trees import content_hash
from fedfleet.engine.coordinator import begin, step
from fedfleet.network.frontend.claims import decode_report
from fedfleet.network.frontend.partial_sums import PartialSums, fold_layout
from fedfleet.network.frontend.report_log import LogEntry
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.security.enrolment import Registry, Terms
from fedfleet.network.security.enrolment_request import Refusal
from fedfleet.network.server.admission import Admission
from fedfleet.network.server.candidates import Candidates
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.sample_limits import MEDIANS, SampleLimits
from tests.network.harness import ground
from tests.network.puppet import Puppet, Status
from tests.network.scene import Scene, play
from tests.network.security.test_enrolment import KEY, asks
from tests.network.server.test_commit import committed, opened
from tests.network.toys import Toy, payload_of, plan_of, worked, world_for

DECLARED = (0, 1, 1000, (1 << 24) - 1, 1 << 24, 1 << 63)
PLACES = ("first", "middle", "last")
OWN = 12  # samples that honest devices declare
TOY = Toy(clients=8, rounds=1, room=True)
WORLD = world_for(TOY)


def arrivals(place: str, liars: int, clients: int = TOY.clients) -> list[int]:
    """All clients in the order in which their reports come; the first `liars` clients lie."""
    honest = list(range(liars, clients))
    at = {"first": 0, "middle": len(honest) // 2, "last": len(honest)}[place]
    return [*honest[:at], *range(liars), *honest[at:]]


def enrol_fleet(registry: Registry, declared: int, liars: int) -> None:
    """Devices with data of their own; a liar that is not admitted comes again with the data of the spec."""
    for client in range(TOY.clients):
        samples = declared if client < liars else OWN + client % 3
        answer = registry.enrol(asks(client=client, samples=samples, data="own"), 1.0, "")
        if isinstance(answer, Refusal):
            assert client < liars
            answer = registry.enrol(asks(client=client), 1.0, "")
        assert not isinstance(answer, Refusal), answer


class Round:
    """One round of the server's components: tasks are out, and reports come as a test says."""

    def __init__(self, folder: Path, declared: int, liars: int, toy: Toy, max_samples: int | None) -> None:
        folder.mkdir()
        self.toy, self.plan, self.liars, self.declared = toy, plan_of(toy), liars, declared
        self.registry = Registry(folder / "devices.db", KEY, Terms(toy.clients, open=True))
        enrol_fleet(self.registry, declared, liars)
        self.limits = SampleLimits(self.plan, WORLD, self.registry, max_samples)
        self.admission = Admission(self.plan, folder, self.limits, streams=not toy.collects, lease=60.0)
        state = step(self.plan, begin(self.plan).state, Evaluated(0.0, 0, 1, 2, 0.5))[0]
        state = step(self.plan, state, TimerFired(state.wake))[0] if state.wake is not None else state
        candidates = Candidates(self.plan, WORLD, ServeOptions(devices=toy.clients))
        candidates.on_calls(np.arange(toy.clients), np.zeros(toy.clients), 1.0)
        candidates.on_ask(1.0)
        (answer,) = (effect.fact for effect in candidates.try_answer(state, 1.0) if hasattr(effect, "fact"))
        self.state, _, commands = step(self.plan, state, answer)
        (self.wave,) = [command.wave for command in commands if hasattr(command, "wave")]
        self.limits.fix(self.wave)
        self.admission.on_send(self.wave)
        self.layout = fold_layout(self.plan.algorithm.fold, self.wave.server)
        self.sums = [PartialSums(self.layout, None) for _ in range(2)]
        self.taken: dict[int, float] = {}  # by client: the weight of what was granted
        self.refused: set[int] = set()

    def hand_in(self, client: int, frontend: int) -> None:
        """A report is handed in, three times if it is refused at first."""
        task = int(np.flatnonzero(self.wave.assignments.clients == client)[0]) + self.wave.first
        offer = payload_of(replace(worked_toy(self.toy, client, task, self.wave.server.params)))
        report = worked_toy(self.toy, client, task, self.wave.server.params)
        weight = float(self.declared) if client < self.liars else report.weight
        decoded = decode_report(self.layout, None, memoryview(offer), weight, check=not self.toy.collects)
        for attempt in range(3):
            claim = inside.Claim(
                number=attempt, client=client, task=task, weight=weight, crc32c=attempt, fault=decoded.fault, names=["loss"],
                values=[1.0], stats=1,
            )  # fmt: skip
            effects = self.admission.on_claim(frontend, claim, self.state, None, 2.0)
            (grant,) = [g for e in effects if hasattr(e, "message") for g in e.message.grants]
            if grant.granted:
                entry = LogEntry(task, client, grant.order, 2.0, grant.weight, grant.factor, grant.sum, 0, 0, (), (), 0)
                if not self.toy.collects:
                    self.sums[frontend].add(0, entry, report.update)
                self.taken[client] = grant.weight
                return
        assert grant.status == pb.Receipt.REFUSED
        self.refused.add(client)

    def model(self) -> str:
        """The bits of the mean of what was granted."""
        fold, whole = self.plan.algorithm.fold, aggregation.zero(self.plan.algorithm.fold, self.wave.server)
        for sums in self.sums:
            saved = sums.bucket_sums(0)
            if saved is not None:
                whole = aggregation.merge(fold, whole, aggregation.load(fold, self.wave.server, saved))
        aggregate = aggregation.finish(fold, whole)
        assert aggregate is not None
        return content_hash(aggregate.mean)


def worked_toy(toy: Toy, client: int, task: int, params: Any) -> Any:
    from fedfleet.core.tensor_format import pack_tree

    return worked(toy, client, task, pack_tree(params))


def played(folder: Path, declared: int, liars: int, place: str, toy: Toy = TOY, max_samples: int | None = None) -> Round:
    made = Round(folder, declared, liars, toy, max_samples)
    try:
        for turn, client in enumerate(arrivals(place, liars)):
            made.hand_in(client, turn % 2)
    finally:
        made.registry.close()
    return made


@pytest.mark.parametrize("max_samples", [None, 1 << 40], ids=["by the median", "by the room alone"])
@pytest.mark.parametrize("liars", [1, 2, 3])
@pytest.mark.parametrize("declared", DECLARED)
def test_no_declaration_refuses_an_honest_report_or_makes_the_order_matter(
    declared: int, liars: int, max_samples: int | None, tmp_path: Path
) -> None:
    seen: set[Any] = set()
    for place in PLACES:
        made = played(tmp_path / place, declared, liars, place, max_samples=max_samples)
        assert made.refused <= set(range(liars))
        assert {c: w for c, w in made.taken.items() if c >= liars} == {c: 1.0 + c % 3 for c in range(liars, TOY.clients)}
        most = made.plan.algorithm.fold.heaviest if max_samples else MEDIANS * (OWN + 2)
        assert all(weight <= most for weight in made.taken.values())
        seen.add((frozenset(made.refused), made.model()))
    assert len(seen) == 1


@pytest.mark.parametrize("declared", DECLARED)
def test_a_fold_that_collects_takes_the_same_reports_in_every_order(declared: int, tmp_path: Path) -> None:
    toy = replace(TOY, collects=True)
    taken = [played(tmp_path / place, declared, 2, place, toy) for place in PLACES]
    assert all(made.refused <= {0, 1} and made.taken == taken[0].taken for made in taken)


# ---- the whole server, with kills ---------------------------------------------------------------------------------


def own_data(scene: Scene, client: int, samples: int, next_task: int = 0) -> None:
    registry = scene.processor.served.registry
    request = asks(client=client, samples=samples, data="own")
    if registry.enrolled[client]:
        request = back_of(scene, client, samples)
    answer = registry.enrol(request, 1.0, "", next_task)
    assert not isinstance(answer, Refusal), answer


def back_of(scene: Scene, client: int, samples: int) -> Any:
    from fedfleet.network.security.secrets import secret_of

    return asks(client=client, secret=secret_of(scene.processor.served.key, client, 1), samples=samples, data="own")


def one_round(folder: Path, *, killed: bool) -> tuple[dict[int, float], str]:
    """A round with one liar; in between the fleet declares anew, so that a cap that was computed again would be another one.

    The weights by client, and the model.
    """
    toy, kept = Toy(clients=4, rounds=1, room=True), dict[int, Any]()
    weights, model = dict[int, float](), list[str]()

    async def begins(scene: Scene) -> None:
        for client in range(4):
            own_data(scene, client, 1 << 20 if client == 0 else OWN)
        tasks = await opened(scene)
        scene.claim(0, tasks[1])
        await scene.turn()
        scene.grants(0)
        scene.safe(0, tasks[1])
        await scene.turn()
        for client in (1, 2, 3):
            own_data(scene, client, 1, next_task=scene.processor.state.next_task)
        kept.update(scene.granted)
        if not killed:
            await ends(scene, tasks, tasks[1])

    async def resumes(scene: Scene) -> None:
        scene.granted.update(kept)
        (first,) = kept
        scene.ready(0, {0: [kept[first][1]]})
        scene.ready(1)
        scene.here(0, 2, 3)
        await scene.turn()
        await ends(scene, sorted([*scene.running, first]), first)

    async def ends(scene: Scene, tasks: list[int], done: int) -> None:
        for task in tasks:
            if task != done:
                lies = {"weight": 900.0} if scene.client(task) == 0 else {}
                scene.claim(0, task, **lies)
        await scene.turn()
        scene.grants(0)
        weights.update({entry.client: entry.weight for _, entry, _ in scene.granted.values()})
        scene.safe(0, *scene.granted)
        scene.closed(0, 0, sorted(scene.granted))
        scene.closed(1, 0, [])
        await committed(scene, 1)
        model.append(str(scene.events(ModelCommitted)[0].model_hash))
        assert scene.events(ReportRejected) == []
        assert "client 0 declares 1048576 samples" in scene.remarks()

    play(folder, toy, begins)
    if killed:
        play(folder, toy, resumes, resume=True)
    return weights, model[0]


def test_a_killed_server_counts_a_liar_as_it_did_when_the_task_was_sent(tmp_path: Path) -> None:
    whole = one_round(tmp_path / "whole", killed=False)
    assert one_round(tmp_path / "killed", killed=True) == whole
    assert whole[0] == {0: float(MEDIANS * OWN), 1: 2.0, 2: 3.0, 3: 1.0}


# ---- devices over gRPC --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_over_the_network_a_liar_decides_nothing_whenever_it_comes(tmp_path: Path) -> None:
    toy = Toy(clients=4, rounds=1, room=True)
    models = set[str]()
    for declared, place in ((1 << 24, "first"), (1 << 24, "last"), ((1 << 24) - 1, "middle")):
        with ground(tmp_path / f"{declared}-{place}", toy) as made:
            made.folder.mkdir()
            # Nobody here evaluates the last model: the server need not wait for it.
            made.serve(transmitters=2, evaluate_seconds=0.5)
            made.await_listening()
            fleet = [Puppet(made.address, client) for client in range(4)]
            try:
                for puppet in fleet:
                    puppet.enrol(samples=declared if puppet.client == 0 else OWN, data="own")
                errands = dict(zip(range(4), in_parallel([puppet.await_work for puppet in fleet]), strict=True))
                for client in arrivals(place, 1, 4):
                    head, payload = fleet[client].honest(toy, errands[client])
                    if client == 0:
                        head.weight = float(declared)
                    assert fleet[client].hand(head, payload).status == Status.SAFE
                assert made.ended() == 0
            finally:
                for puppet in fleet:
                    puppet.close()
            assert not [e for e in made.events() if isinstance(e, ReportRejected)]
            models.add(made.last_model())
    assert len(models) == 1


def in_parallel(calls: list[Any]) -> list[Any]:
    """What these calls return, all made at once."""
    results: list[Any] = [None] * len(calls)

    def call(at: int) -> None:
        results[at] = calls[at]()

    threads = [threading.Thread(target=call, args=(at,)) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
