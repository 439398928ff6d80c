"""`fedfleet demo`, with fewer rounds and one fleet."""

import json

import pytest

from fedfleet.app.demo import methods, study, users
from tests.app.specs import refused


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(study, "ROUNDS", 2)
    monkeypatch.setattr(users, "ROUNDS", 2)
    monkeypatch.setattr(methods, "FLEET", "mild")
    monkeypatch.setattr(methods, "HOURS", 0.4)
    for fleet in ("middle", "severe"):
        monkeypatch.delitem(study.FLEETS, fleet)


def test_the_demo_writes_its_runs_and_pages(short, fedfleet, tmp_path):
    code, out, err = fedfleet("demo", "--out", tmp_path / "demo", "--json")
    got = json.loads(out)
    assert code == 0 and all("WARNING" in line for line in err.splitlines())  # the mild fleet has no rounds to spare
    assert [(r["fleet"], r["pace"]) for r in got["runs"]] == [("mild", "readiness"), ("mild", "deadline")]
    assert [r["method"] for r in got["users"]] == ["FedAvg", "HierFL", "ShuffleFL"]
    assert [r["method"] for r in got["methods"]] == list(methods.METHODS) and len(got["methods"]) == 6
    assert set(got["metrics"]["mild"]) >= {"DevMC-R", "InterMC-T"}
    assert got["report"] == str(tmp_path / "demo/report.html")
    for name in (
        "report.html",
        "users.html",
        "methods.html",
        "runs/mild-deadline/report.html",
        "runs/users-hierfl/report.html",
    ):
        page = (tmp_path / "demo" / name).read_text()
        assert "<svg" in page and "<script" not in page, name
    assert 'href="methods.html"' in (tmp_path / "demo/report.html").read_text()
    assert 'href="users.html"' in (tmp_path / "demo/report.html").read_text()
    assert "How it was computed" in (tmp_path / "demo/runs/users-shufflefl/report.html").read_text()


def test_a_folder_that_is_no_demo_is_refused(fedfleet, tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    refused(fedfleet("demo", "--out", tmp_path), "is not a demo", "--out")
