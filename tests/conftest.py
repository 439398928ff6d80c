"""What one test registers, no other sees; and interrupts reach the processes that tests start."""

import atexit
import os
import re
import shutil
import signal
import tempfile

# What tests write lies in memory where there is room. To wait for a disk proves nothing, since no test cuts the power: processes
# that are killed lose nothing that they wrote, there as on a disk.
if os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > 4 << 30:
    os.environ.setdefault("TMPDIR", "/dev/shm")
    tempfile.tempdir = None  # pytest has asked already, and is answered anew

# Two processes of tests share two cores: a thread that spins while it waits takes the core from those for which it waits. It sleeps
# instead. OpenMP reads this when PyTorch is loaded, here and in all processes that tests start.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# What a person trusts and what devices keep belongs to the tests alone.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="fedfleet-state-")

import pytest
from hypothesis import HealthCheck, settings

import fedfleet.network  # noqa: F401  # before a test loads gRPC, since only then can it be told to refuse TLS 1.2
from fedfleet.core import registry
from tests.processor_time import pytest_runtest_logstart, pytest_runtest_makereport, pytest_terminal_summary  # noqa: F401  # hooks

atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
_SLOW_FILE = re.compile(r"^pytestmark = .*mark\.slow", re.M)

# Laws are tried on the same examples every time, and a busy machine proves nothing against them.
settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

# Shells start what runs in the background deaf to interrupts, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="leave out what is marked slow, whole files without reading them")


def pytest_ignore_collect(collection_path, config):
    """With --quick, a file that is marked slow as a whole is not even imported."""
    if config.getoption("--quick") and collection_path.suffix == ".py":
        return bool(_SLOW_FILE.search(collection_path.read_text(encoding="utf-8"))) or None
    return None


def pytest_collection_modifyitems(config, items):
    """Tests that are marked for the soak run there, beside those of tests/soak; a sample of each kind runs always."""
    if not os.environ.get("FEDFLEET_SOAK"):
        left_out = ("soak", "slow") if config.getoption("--quick") else ("soak",)
        left = [item for item in items if any(item.get_closest_marker(name) for name in left_out)]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not any(item.get_closest_marker(name) for name in left_out)]
    items[:] = in_order(items, getattr(config, "workerinput", {}).get("workercount", 1))


def in_order(items, processes):
    """What takes long first, in each of the equal parts with which processes begin: they take what is left over from one another,
    and all end at the same time if it is short. A cluster of Ray, which would like to be alone, begins before anything else."""
    slow = sorted((i for i in items if i.get_closest_marker("slow")), key=lambda item: item.path.name != "test_ray.py")
    quick = [item for item in items if not item.get_closest_marker("slow")]

    def part(of, number):
        return of[len(of) * number // processes : len(of) * (number + 1) // processes]

    return [item for number in range(processes) for each in (slow, quick) for item in part(each, number)]


@pytest.fixture(autouse=True)
def own_registry():
    before = {kind: dict(parts) for kind, parts in registry._added.items()}
    yield
    for kind, parts in registry._added.items():
        parts.clear()
        parts.update(before[kind])
