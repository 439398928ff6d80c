"""The demo's second question."""

from fedfleet.app.demo import users
from fedfleet.app.demo.running import USERS
from fedfleet.app.pages.demo_users import sentence, users_section
from tests.app.pages.compared.arms import compared
from tests.app.pages.compared.looks import made, side


def test_how_much_faster_sharing_is_is_computed():
    done = {(USERS, way): [compared([0.1, 0.2, 0.9])] for way in users.METHODS}
    done[USERS, "ShuffleFL"] = [compared([0.1, 0.9])]
    assert "ShuffleFL reaches 85 % 2.0 times as fast as FedAvg." in sentence(done)
    page = users_section(done, [side(way, made([0.1, 0.9])) for way in users.METHODS])
    assert "change device" in page and page.count("<svg") >= 4


def test_what_is_never_reached_is_not_compared():
    done = {(USERS, way): [compared([0.1, 0.2])] for way in users.METHODS}
    assert "times as fast" not in sentence(done)
