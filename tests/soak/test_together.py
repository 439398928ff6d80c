"""Every selector under every policy where everything goes wrong, instead of the sample that every test run takes."""

import pytest

from tests.laws.test_together import PAIRS, check_pair


@pytest.mark.parametrize(("selector", "policy"), PAIRS)
def test_all_pairs_keep_what_each_of_them_promises(selector, policy, tmp_path):
    check_pair(selector, policy, tmp_path)
