"""The demo's second question."""

from fedfleet.app.demo import demo_users
from fedfleet.app.demo.demo_jobs import USERS
from fedfleet.app.pages.demo_users_page import sentence, users_section
from tests.app.pages.sides.arms import compared
from tests.app.pages.sides.looks import made, side


def test_how_much_faster_sharing_is_is_computed():
    done = {(USERS, way): [compared([0.1, 0.2, 0.9])] for way in demo_users.METHODS}
    done[USERS, "ShuffleFL"] = [compared([0.1, 0.9])]
    assert "ShuffleFL reaches 85 % 2.0 times as fast as FedAvg." in sentence(done)
    page = users_section(done, [side(way, made([0.1, 0.9])) for way in demo_users.METHODS])
    assert "change device" in page and page.count("<svg") >= 4


def test_what_is_never_reached_is_not_compared():
    done = {(USERS, way): [compared([0.1, 0.2])] for way in demo_users.METHODS}
    assert "times as fast" not in sentence(done)
