import pytest

from fedfleet.core.errors import BadInput
from fedfleet.network.stress.load_sweep import run_sweep, sizes_of
from fedfleet.network.stress.stress_plan import Dummy
from fedfleet.network.stress.stress_run import Stress
from tests.network.stress.outcomes import outcome


@pytest.mark.parametrize("text", ["", "10,", "a", "0", "-5", "1.5"])
def test_what_is_no_list_of_sizes_is_refused(text):
    with pytest.raises(BadInput, match="--sweep"):
        sizes_of(text)


def test_sizes_are_sorted_and_told_once():
    assert sizes_of("1000, 10,1000") == [10, 1000]


def test_memory_per_client_is_against_the_first_size():
    def run(stress):
        return outcome(stress, peak_mb=50 + stress.dummy.clients * 500 / 1e6)

    rows = [*run_sweep(Stress(Dummy(1, 400, 3)), [1000, 100_000], run)]
    assert [row["clients"] for row in rows] == [1000, 100_000]
    assert [row["bytes_per_client"] for row in rows] == [None, pytest.approx(500, rel=0.01)]
