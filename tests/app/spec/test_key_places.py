"""Where keys belong: in another table, in another part, or under another name."""

import pytest

from fedfleet.app.spec import resolve
from fedfleet.app.spec.key_places import dotted_key, key_places, settings_for
from fedfleet.core.errors import BadInput


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"lr": 0.1}, "the spec has no table or key 'lr'; did you mean algorithm.lr=0.1?"),
        ({"learning_rate": 0.1}, "did you mean algorithm.lr=0.1?"),
        ({"world": {"num_clients": 9}}, "world has no key 'num_clients'; did you mean 'clients'?"),
        ({"algorithm": {"clients": 9}}, "algorithm has no key 'clients'; did you mean world.clients=9?"),
        ({"stop": {"tf32": True}}, "did you mean run.tf32=true?"),
        ({"pace": {"split": [6, 2, 2]}}, "did you mean world.split=..?"),
        ({"pace": {"seconds": 9}}, "which belongs to deadline"),
        ({"algorithm": {"lrr": 0.1}}, "algorithm has no key 'lrr'; did you mean 'lr'?"),
        ({"world": {"qwertz": 1}}, "world has no key 'qwertz'; known: "),
        ({"qwertz": 1}, "the spec has no table or key 'qwertz'; known: "),
        ({"runs": []}, "fedfleet study FILE"),
    ],
    ids=str,
)
def test_a_key_in_the_wrong_place_is_led_to_the_right_one(table, says):
    with pytest.raises(BadInput) as told:
        resolve(table)
    assert says in str(told.value) and type(told.value) is BadInput


def test_what_a_default_part_has_comes_alone():
    assert list(key_places("rounds")) == ["stop.rounds"] and dotted_key("rounds") == "stop.rounds"
    assert len(settings_for("alpha", "0.3")) == 3 and settings_for("alpha", "0.3")[0] == "world.data.alpha=0.3"
    assert settings_for("world") == [] and dotted_key("world") is None
