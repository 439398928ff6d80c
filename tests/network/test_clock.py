"""A wall clock that jumps changes nothing: leases, patience and the run's own clock go by the monotonic one."""

import ast
import os
from pathlib import Path

import pytest

import fedfleet.network
from fedfleet.core.events import ModelCommitted
from tests.network.crowd import crowd
from tests.network.harness import ground
from tests.network.proving import complaints
from tests.network.toys import Toy, reference
from tests.worlds import only

pytestmark = pytest.mark.slow

WIRE = Path(fedfleet.network.__file__).parent
# Where people or certificates mean the calendar: dates of log lines, how long a token or a certificate holds.
CALENDAR = {
    "operations/logs.py", "security/tokens.py", "security/tls.py", "security/certificates.py",
    # Numbers of evaluation tasks begin with the date, so that those of an earlier start are not among them.
    "server/evaluations.py",
    # A lease outlives the device's process, as only the calendar does.
    "device/client_loop.py", "device/transfers.py",
}  # fmt: skip
# Where one read of the calendar stands among rules that must not have it: a token holds until a date.
ONE_READ = {"server/candidates.py"}
JUMPING = """
import time
_true, _calls = time.time, 0
def jumping():
    global _calls
    _calls += 1
    return _true() + (-1) ** _calls * 86400.0 * (_calls % 7)
time.time = jumping
"""


def wall_clocks(text):
    """The places where a module reads the wall clock."""
    result = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if (
                (owner, node.attr) in {("time", "time"), ("time", "time_ns")}
                or node.attr in {"utcnow", "today"}
                or (node.attr == "now" and owner in {"datetime", "dt"})
            ):
                result.append(node.lineno)
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            result += [node.lineno for name in node.names if name.name in {"time", "time_ns"}]
    return result


def test_the_search_finds_a_wall_clock():
    assert wall_clocks("import time\nx = time.time()") == [2]
    assert wall_clocks("from time import time") == [1]
    assert wall_clocks("x = datetime.now(UTC)") == [1]
    assert wall_clocks("import time\nx = time.monotonic()") == []


def test_nothing_on_the_wire_decides_by_the_wall_clock():
    odd = {
        str(path.relative_to(WIRE)): result
        for path in WIRE.rglob("*.py")
        if str(path.relative_to(WIRE)) not in CALENDAR and (result := wall_clocks(path.read_text()))
    }
    assert {name: len(lines) for name, lines in odd.items()} == dict.fromkeys(ONE_READ, 1)


def test_a_clock_that_jumps_by_days_changes_nothing(tmp_path, monkeypatch):
    """Every process of the server reads a wall clock that leaps to and fro by up to a week at each look."""
    here = tmp_path / "clock"
    here.mkdir()
    (here / "sitecustomize.py").write_text(JUMPING)
    monkeypatch.setenv("FEDFLEET_TEST_PATH", str(here))
    toy = Toy(clients=3, rounds=3)
    names, _ = reference(toy)
    with ground(tmp_path, toy) as place:
        place.serve(lease=20.0, patience=20.0)
        with crowd(toy, place.address) as people:
            assert place.ended() == 0, place.said
        events = place.events()
        assert complaints(events, people.receipts) == []
        assert place.models() == names
        assert only(ModelCommitted, events)[-1].time < 30.0
    assert os.environ["FEDFLEET_TEST_PATH"]
