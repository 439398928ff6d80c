"""`fedfleet demo`, with fewer rounds and one fleet."""

import json

import pytest

from fedfleet.app.demo import study, users
from tests.app.specs import refused


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(study, "ROUNDS", 2)
    monkeypatch.setattr(users, "ROUNDS", 2)
    for fleet in ("middle", "severe"):
        monkeypatch.delitem(study.FLEETS, fleet)


def test_the_demo_writes_its_runs_and_pages(short, fedfleet, tmp_path):
    code, out, err = fedfleet("demo", "--out", tmp_path / "demo", "--json")
    got = json.loads(out)
    assert (code, err) == (0, "")
    assert [(r["fleet"], r["pace"]) for r in got["runs"]] == [("mild", "readiness"), ("mild", "deadline")]
    assert [r["method"] for r in got["users"]] == ["FedAvg", "HierFL", "ShuffleFL"]
    assert set(got["metrics"]["mild"]) >= {"DevMC-R", "InterMC-T"}
    assert got["report"] == str(tmp_path / "demo/report.html")
    for name in ("report.html", "users.html", "runs/mild-deadline/report.html", "runs/users-hierfl/report.html"):
        page = (tmp_path / "demo" / name).read_text()
        assert "<svg" in page and "<script" not in page, name
    assert 'href="users.html"' in (tmp_path / "demo/report.html").read_text()
    assert "How it was computed" in (tmp_path / "demo/runs/users-shufflefl/report.html").read_text()


def test_a_folder_that_is_no_demo_is_refused(fedfleet, tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    refused(fedfleet("demo", "--out", tmp_path), "is not a demo", "--out")
