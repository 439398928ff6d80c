"""A thousand random fault runs of every policy, instead of the sample that every test run takes."""

from collections import Counter

import pytest

from tests.faulty import check_case
from tests.laws.test_faults import PACES

RUNS = 1000


@pytest.mark.parametrize("name", PACES)
def test_a_thousand_runs_in_which_things_go_wrong(name, tmp_path):
    result = Counter()
    for case in range(RUNS):
        result += check_case(name, case, tmp_path / str(case))
    assert min(result[fate] for fate in ("arrived", "lost", "late", "dropped", "running at the end", "again")) > 50
    assert result["resumed"] > RUNS // 2
