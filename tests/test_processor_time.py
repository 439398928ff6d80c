"""The table of the tests that took most processor time."""

from tests.processor_time import LISTED, slowest


def test_the_tests_that_took_most_come_first_and_waits_are_told():
    head, *lines = slowest([(20.0, 21.0, "a"), (40.0, 50.0, "b"), *((1.0, 0.9, f"c{i}") for i in range(30))])
    assert head.startswith("processor time: 90 s, and 11 s of waiting")
    assert [line.split()[2] for line in lines[:2]] == ["b", "a"] and len(lines) == LISTED


def test_a_few_tests_have_no_table():
    assert slowest([(1.0, 1.0, "a")]) == []
