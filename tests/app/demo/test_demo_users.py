"""The demo's users."""

from fedfleet.app.assemble import assemble
from fedfleet.app.demo.demo_users import DEVICES, METHODS, USERS_A_ROUND, one_user, users_spec
from fedfleet.app.spec import resolve


def test_flat_and_nested_runs_ask_for_as_many_devices():
    plans = {name: assemble(resolve(users_spec(name, 7))).plan for name in METHODS}
    assert plans["FedAvg"].clients == DEVICES
    assert plans["HierFL"].clients == plans["ShuffleFL"].clients < DEVICES / 2
    assert plans["FedAvg"].pace.cohort == 14 and plans["HierFL"].pace.cohort == USERS_A_ROUND


def test_the_user_that_is_shown_has_most_devices_and_some_data():
    problem = one_user(7)
    assert problem.counts.shape == (5, 10)
    assert problem.counts.sum() > 20
