"""What reports may weigh, whatever devices declare: fixed when a task is sent, and the same after a kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedfleet.choose.uniform import uniform
from fedfleet.core.parts import Algorithm, Plan
from fedfleet.core.passes import LocalPass
from fedfleet.core.records import Cost, ServerState, Stop, Wave, whole_work
from fedfleet.core.room import with_room
from fedfleet.learn.fedavg import fedavg
from fedfleet.network.security.enrolment import Registry, Terms
from fedfleet.network.server.sample_limits import MEDIANS, SampleLimits
from fedfleet.pace.rounds import readiness
from tests.network.security.test_enrolment import KEY, asks, back
from tests.network.toys import Toy, plan_of
from tests.worlds import even_fleet, world_of

CLIENTS = 6
WORLD = world_of(even_fleet(CLIENTS))
SPEC = int(WORLD.data.sizes(0)[0])
Open = Callable[..., tuple[Registry, SampleLimits]]


def plan_with(algorithm: Algorithm) -> Plan:
    plan = Plan(1, algorithm, uniform(), readiness(CLIENTS), Stop(), {"w": np.zeros(2, np.float32)}, CLIENTS)
    return replace(plan, algorithm=with_room(algorithm, plan.pace, CLIENTS, WORLD.data.sizes(0)))


def wave(first: int = 0, share: float = 1.0) -> Wave:
    clients = np.arange(CLIENTS)
    assignments = replace(whole_work(clients), share=np.full(CLIENTS, share))
    none = np.zeros(CLIENTS)
    return Wave(first, 0, 0, 0.0, assignments, WORLD.keys, Cost(none, none, none), ServerState({}))


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    registries: list[Registry] = []

    def opener(max_samples: int | None = None, algorithm: Algorithm | None = None) -> tuple[Registry, SampleLimits]:
        registry = Registry(tmp_path / "devices.db", KEY, Terms(CLIENTS, open=True))
        registries.append(registry)
        return registry, SampleLimits(plan_with(algorithm or fedavg()), WORLD, registry, max_samples)

    yield opener
    for registry in registries:
        registry.close()


def enrol(registry: Registry, *samples: int) -> None:
    """Devices with data of their own; one that declares 0 trains on what the spec deals."""
    for n in samples:
        registry.enrol(asks(samples=n, data="own" if n else ""), 1.0, "")


def test_data_of_the_spec_weigh_what_the_spec_says(opened: Open) -> None:
    registry, limits = opened(max_samples=1)
    for request in (asks(), asks(samples=1), asks(samples=1 << 24)):
        registry.enrol(request, 1.0, "")
    assert limits.fix(wave()) == []
    seen = limits.of(wave())
    assert seen.heaviest.tolist() == seen.counted.tolist() == seen.samples.tolist() == [SPEC, 1, SPEC, SPEC, SPEC, SPEC]


def test_a_liar_counts_ten_times_the_median_and_it_is_said_once(opened: Open) -> None:
    registry, limits = opened()
    enrol(registry, 100, 1 << 24, 80, 120)
    (sentence,) = limits.fix(wave())
    assert sentence.startswith("client 1 declares 16777216 samples of its own, but each of its reports counts as 1000; ")
    seen = limits.of(wave())
    assert seen.heaviest.tolist()[:4] == [100, 1 << 24, 80, 120], "more than it declared is still refused"
    assert seen.counted.tolist()[:4] == seen.samples.tolist()[:4] == [100, 1000, 80, 120]
    assert limits.fix(wave(9)) == []


def test_the_cap_may_be_given_and_a_share_of_the_work_is_a_share_of_the_weight(opened: Open) -> None:
    registry, limits = opened(max_samples=90)
    enrol(registry, 100, 1 << 24, 81)
    limits.fix(wave(share=0.5))
    assert limits.of(wave(share=0.5)).heaviest.tolist()[:3] == [50, 1 << 23, 41]
    assert limits.of(wave(share=0.5)).counted.tolist()[:3] == [50, 90, 41]


def test_no_report_takes_more_than_its_share_of_the_room(opened: Open) -> None:
    registry, limits = opened(max_samples=1 << 30)
    enrol(registry, *[1 << 30] * CLIENTS)
    limits.fix(wave())
    counted = limits.of(wave()).counted
    assert counted.sum() <= 2.0**24 and counted[0] == pytest.approx(2.0**24 / CLIENTS)


def test_what_a_task_was_sent_with_holds_whatever_is_declared_later_and_after_a_kill(opened: Open) -> None:
    registry, limits = opened()
    enrol(registry, 100, 400, 80, 120)
    limits.fix(wave(0))
    before = limits.of(wave(0))
    registry.enrol(back(1, samples=20, data="own"), 2.0, "", next_task=6)
    enrol(registry, 1, 1)
    limits.fix(wave(6))
    after = limits.of(wave(6))
    assert before.counted.tolist()[:4] == [100, 400, 80, 120] and after.counted.tolist()[:4] == [100, 20, 80, 120]
    _, again = opened()
    for first, wanted in ((0, before), (6, after)):
        assert all(np.array_equal(a[:4], b[:4]) for a, b in zip(again.of(wave(first)), wanted, strict=True))


def test_the_cap_of_a_task_stays_when_the_median_moves(opened: Open) -> None:
    registry, limits = opened()
    enrol(registry, 50, 1 << 20, 50)
    limits.fix(wave(0))
    enrol(registry, 4, 4, 4)
    limits.fix(wave(6))
    assert [limits.of(wave(first)).counted[1] for first in (0, 6)] == [50.0 * MEDIANS, 4.0 * MEDIANS]
    assert [opened()[1].of(wave(first)).counted[1] for first in (0, 6)] == [50.0 * MEDIANS, 4.0 * MEDIANS]


def test_tasks_that_the_journal_lost_leave_nothing_behind(opened: Open) -> None:
    registry, limits = opened()
    enrol(registry, 50, 1 << 20, 50)
    limits.fix(wave(0))
    registry.enrol(back(0, samples=7, data="own"), 2.0, "", next_task=6)
    enrol(registry, 4, 4, 4)
    limits.fix(wave(6))
    for seen in (limits, opened()[1]):
        seen.forget_tasks(3)
        assert seen.of(wave(0)).counted[:2].tolist() == [50.0, 500.0]
        assert seen.of(wave(3)).counted[0] == 7.0, "the next task goes by what its client declares now"


@pytest.mark.parametrize("weigh", ["one", "samples"])
def test_a_plain_mean_believes_nobody(opened: Open, weigh: Any) -> None:
    registry, limits = opened(algorithm=fedavg(weigh=weigh))
    enrol(registry, 100, 1 << 24, 100)
    assert len(limits.fix(wave())) == (weigh == "samples"), "where no weight is limited nothing is said"
    assert limits.of(wave()).counted[:3].tolist() == ([1, 1, 1] if weigh == "one" else [100, 1000, 100])
    assert limits.of(wave()).samples[1] == 1000


def test_an_opaque_pass_may_weigh_its_reports_as_it_likes_up_to_its_share_and_the_cap(tmp_path: Path) -> None:
    plan = plan_of(Toy(clients=CLIENTS))
    plan = replace(plan, algorithm=with_room(plan.algorithm, plan.pace, CLIENTS, WORLD.data.sizes(0)))
    assert not isinstance(plan.algorithm.local(0, {}), LocalPass)
    registry = Registry(tmp_path / "d.db", KEY, Terms(CLIENTS, open=True))
    limits = SampleLimits(plan, WORLD, registry)
    enrol(registry, 0, 10, 5000, 10)
    limits.fix(wave())
    room = plan.algorithm.fold.heaviest
    assert limits.of(wave()).heaviest.tolist() == [room, room, 5000.0, room, room, room]
    assert limits.of(wave()).counted.tolist() == [room, 100.0, 100.0, 100.0, room, room]
    registry.close()


def test_scores_count_on_ten_times_the_median_of_what_devices_declare_to_test_on(opened: Open) -> None:
    registry, limits = opened()
    for tests in (20, 1 << 30, 30):
        registry.enrol(asks(samples=100, test_samples=tests, data="own"), 1.0, "")
    clients = np.arange(4)
    most = registry.max_tests(clients, np.full(4, 5000))
    assert most.tolist() == [20, 1 << 30, 30, 5000]
    assert limits.counted_tests(clients, most).tolist() == [20, 300, 30, 5000]
    _, given = opened(max_samples=25)
    assert given.counted_tests(clients, most).tolist() == [20, 25, 25, 5000]


def test_where_nobody_brings_tests_of_its_own_all_scores_count(opened: Open) -> None:
    registry, limits = opened()
    enrol(registry, 0, 0)
    most = registry.max_tests(np.arange(2), np.array([3, 4]))
    assert limits.counted_tests(np.arange(2), most).tolist() == [3, 4]
