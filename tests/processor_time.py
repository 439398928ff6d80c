"""The processor time of each test, its fixtures and the processes that it waited for; those that took most are listed at the end.

The clock on the wall says little where processes of tests share cores. A test that waits costs a process of tests its time all the
same, so that waits are listed beside it.
"""

from __future__ import annotations

import resource
from collections.abc import Generator
from time import perf_counter
from typing import Any

import pytest

LISTED = 20
FEW_SECONDS = 30.0  # of all tests together, below which there is nothing to list
_KEY = "processor seconds, seconds"

_begun: dict[str, tuple[float, float]] = {}


def _now() -> tuple[float, float]:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used), perf_counter()


def pytest_runtest_logstart(nodeid: str) -> None:
    """A test begins, before its fixtures do."""
    _begun[nodeid] = _now()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """With the report of a teardown goes what the whole test took, also from one process of tests to the other."""
    if call.when == "teardown" and item.nodeid in _begun:
        item.user_properties.append((_KEY, [now - then for now, then in zip(_now(), _begun.pop(item.nodeid), strict=True)]))
    return (yield)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List what took most."""
    taken = [
        (*dict(report.user_properties)[_KEY], report.nodeid)
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "teardown" and _KEY in dict(report.user_properties)
    ]
    for line in slowest(taken):
        terminalreporter.write_line(line)


def slowest(taken: list[tuple[float, float, str]]) -> list[str]:
    """The lines of a table of the tests that took most processor time, out of (processor seconds, seconds, name) of all.

    >>> slowest([(0.5, 1.0, "a"), (40.0, 50.0, "b")])[1:]
    ['    40.0    50.0  b', '     0.5     1.0  a']
    """
    total, waited = sum(used for used, _, _ in taken), sum(max(0.0, wall - used) for used, wall, _ in taken)
    if total < FEW_SECONDS:
        return []
    head = f"processor time: {total:.0f} s, and {waited:.0f} s of waiting; the tests that took most, and by the clock (s):"
    return [head, *(f"{used:8.1f}{wall:8.1f}  {name}" for used, wall, name in sorted(taken, reverse=True)[:LISTED])]
