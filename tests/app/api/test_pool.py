"""`fedfleet pool`: what is refused before a process starts, and what people read at the end."""

import pytest

from fedfleet.app.api.pool import pool, pool_text
from fedfleet.core.errors import BadInput
from tests.app.specs import written

LOCAL = """
[task]
use = "digits_logreg"
[world]
clients = 4
[pace]
use = "readiness"
cohort = 4
"""


@pytest.fixture(autouse=True)
def own_records(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_a_spec_must_be_named():
    with pytest.raises(BadInput, match="name a spec file, or give --check"):
        pool()


def test_other_systems_are_refused_with_a_way_out(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(BadInput, match=r"needs Linux.*fedfleet device"):
        pool(check=True)


def test_a_folder_that_holds_something_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("precious")
    with pytest.raises(BadInput, match="exists already"):
        pool(written(tmp_path, LOCAL), out=tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_a_method_that_the_devices_cannot_train_is_refused_before_anything_starts(tmp_path, monkeypatch):
    def no_process(*_, **__):
        raise AssertionError("a process was started")

    monkeypatch.setattr("subprocess.Popen", no_process)
    with pytest.raises(BadInput, match="numpy"):
        pool(written(tmp_path, LOCAL + '[algorithm]\nuse = "fedkd"\n'), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_people_read_a_short_summary():
    summary = {
        "devices": 2, "clients": 4, "seconds": 12.3, "restarts": 1, "gave_up": 0, "down": 0, "tasks": 9, "declined": 2,
        "emulation": {"cpu": "control group, version 2"}, "warnings": [],
    }  # fmt: skip
    text = pool_text({"commits": 3, "accuracy": 0.91234, "out": "runs/x", "pool": summary})
    assert text.splitlines() == [
        "3 models in 12 s; 4 clients on 2 processes; accuracy 0.9123",
        "9 tasks, 2 declined; 1 restarts, 0 devices gave up",
        "cpu: control group, version 2",
        "run folder: runs/x",
    ]
    assert pool_text({"pool": summary}).startswith("0 models in 12 s")
