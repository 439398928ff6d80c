"""What a recommendation may aim at, by name."""

import pytest

from fedfleet.app.studies.compare.aim_names import AIMS, check_aim
from fedfleet.core.errors import BadInput
from fedfleet.measure.measure_info import MEASURE_NAMES


def test_every_measure_and_a_persons_own_are_aims():
    assert [check_aim(name) for name in (*AIMS, *MEASURE_NAMES, "own.recall")] == [*AIMS, *MEASURE_NAMES, "own.recall"]


@pytest.mark.parametrize("name", ["own.", "recall", "R2", "", 3, None])
def test_what_is_no_aim_is_refused_with_how_an_own_one_is_named(name):
    with pytest.raises(BadInput, match=r"own\.NAME"):
        check_aim(name)
