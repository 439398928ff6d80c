"""Looking before picking takes time and bytes, unless it is free."""

from dataclasses import replace

import numpy as np

from fedfleet.core.events import Probed, TasksSent
from fedfleet.core.parts import Selector
from fedfleet.core.records import Stop, whole_work
from fedfleet.core.stages import source_from_stages
from fedfleet.pace.rounds import readiness
from tests.worlds import even_fleet, events_of, only, toy_plan, world_of


def probing(within=np.inf):
    def pick(state, roster, n, draw):
        order = np.argsort(np.nan_to_num(roster.stats["seconds"], nan=np.inf), kind="stable")
        return whole_work(roster.clients[order[:n]])

    return Selector("probing", pick, probe=lambda s, roster, n, d: (roster.clients, "seconds"), probe_seconds=within)


def told(within=np.inf, **world):
    def stages(clients, cost, start, tasks):
        return {
            "download": cost.bytes_down / 16.0 * (1.0 + clients),
            "compute": cost.samples,
            "upload": cost.bytes_up / 8.0,
        }

    made = replace(world_of(even_fleet(4)), devices=source_from_stages(stages, ["toy"] * 4), **world)
    return events_of(toy_plan(readiness(2), 4, choose=probing(within), stop=Stop(rounds=1)), made)[0]


def test_a_probe_ends_with_the_slowest_answer():
    log = told()
    (probed,), (sent,) = only(Probed, log), only(TasksSent, log)
    took = sum(probed.spent[name] for name in ("download", "compute", "upload"))
    assert probed.time == 20.0 + took.max()
    assert sent.time == probed.time
    assert probed.spent["bytes_up"].tolist() == [8.0] * 4
    assert (probed.spent["bytes_down"] == 16.0).all()


def test_who_does_not_answer_in_time_is_not_waited_for():
    whole = told()
    (first,) = only(Probed, whole)
    took = sum(first.spent[name] for name in ("download", "compute", "upload"))
    limit = float(np.sort(took)[1])
    (probed,) = only(Probed, told(limit))
    assert probed.time == 20.0 + limit
    assert np.isnan(probed.values).tolist() == (took > limit).tolist()


def test_looking_can_be_free():
    log = told(free_probes=True)
    (probed,) = only(Probed, log)
    assert (probed.time, dict(probed.spent)) == (20.0, {})
    assert not np.isnan(probed.values).any()
