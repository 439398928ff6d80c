"""A server that is killed a hundred times while devices enrol gives no place twice and loses no answer."""

import pytest

from tests.network.security.test_enrolment import kill_often


@pytest.mark.parametrize("seed", range(10))
def test_kills_while_devices_enrol(tmp_path, seed):
    assert kill_often(tmp_path, 10, seed) >= 10
