"""What can be served: plans that a network cannot carry are refused, and reports weigh no more than an honest one can."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Promise
from fedfleet.network.server.served_plan import (
    check_servable,
    client_codecs,
    max_report_bytes,
    stat_names,
)
from tests.network.toys import Toy, plan_of

PLAN = plan_of(Toy(clients=4))


def test_a_plain_plan_can_be_served() -> None:
    check_servable(PLAN, 4)
    assert client_codecs(PLAN) == {} and stat_names(PLAN) is None


@pytest.mark.parametrize("devices", [0, 5])
def test_a_fleet_that_cannot_come_is_refused(devices: int) -> None:
    with pytest.raises(BadInput, match="--devices"):
        check_servable(PLAN, devices)


def test_pooled_training_is_refused() -> None:
    with pytest.raises(BadInput, match=r"one place.*simulate it"):
        check_servable(replace(PLAN, algorithm=replace(PLAN.algorithm, pooled=True)), 4)


def test_noise_that_devices_add_is_served() -> None:
    check_servable(replace(PLAN, algorithm=replace(PLAN.algorithm, private=Promise("local", 1.0, 1e-5))), 4)


def test_a_selector_that_needs_joules_or_an_unknown_column_is_refused() -> None:
    for column, why in (("joules", "no device reports"), ("total_seconds", "unknown column")):
        with pytest.raises(BadInput, match=why):
            check_servable(replace(PLAN, choose=replace(PLAN.choose, sees=(column,))), 4)


def test_a_report_has_room_for_twice_the_model() -> None:
    assert max_report_bytes(PLAN) >= 2 * 16
    assert max_report_bytes(plan_of(Toy(width=1 << 20))) - max_report_bytes(PLAN) == 2 * 4 * ((1 << 20) - 4)
