"""Large blocks are kept for the next time, where the C library can be told so."""

import platform

from fedfleet.executors.allocation import keep_large_blocks


def test_glibc_can_be_told_and_others_just_go_on():
    assert keep_large_blocks() is (platform.libc_ver()[0] == "glibc")
    assert keep_large_blocks() == keep_large_blocks()
