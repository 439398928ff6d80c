"""`fedfleet predict`: one object for programs, a few lines for people, a page; bad input is one sentence."""

import json

import pytest

from tests.app.specs import TINY, refused, written


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Where reference runs of these tests are kept."""
    return tmp_path_factory.mktemp("reference")


def test_a_program_gets_one_object_and_a_person_a_page(fedfleet, tmp_path, cache):
    spec, page = written(tmp_path), tmp_path / "page.html"
    code, out, err = fedfleet("predict", spec, "--cache", cache, "--json")
    got = json.loads(out)
    assert code == 0 and "three reference runs" in err
    assert {
        "accuracy",
        "commits",
        "failed_rounds",
        "virtual_seconds",
        "curve",
        "clock",
        "left_out",
        "notes",
    } <= got.keys()
    code, out, err = fedfleet("predict", spec, "--cache", cache, "--out", page)
    assert code == 0 and err == "" and "(cached)" in out and "limitation: " in out
    assert "before it is trained" in page.read_text()


def test_a_sweep_is_a_table_and_a_sentence(fedfleet, tmp_path, cache):
    spec, page = written(tmp_path), tmp_path / "page.html"
    code, out, _ = fedfleet("predict", spec, "--cache", cache, "--sweep", "pace.cohort=2..4", "--out", page)
    assert code == 0 and out.splitlines()[0].split()[0] == "pace.cohort" and len(out.splitlines()) == 6
    assert "pace.cohort" in page.read_text()
    code, out, _ = fedfleet("predict", spec, "pace.cohort=4", "--cache", cache, "--sweep", "stop.rounds=3,6", "--json")
    assert code == 0 and [row["value"] for row in json.loads(out)["rows"]] == [3, 6]


def test_bad_input_is_one_sentence(fedfleet, tmp_path, cache):
    spec = written(tmp_path)
    refused(fedfleet("predict", tmp_path / "none.toml"), "there is no spec file")
    refused(fedfleet("predict", spec, "pace.cohrt=3"), "did you mean 'cohort'")
    refused(fedfleet("predict", spec, "--sweep", "pace.cohort"), "write KEY=FROM..TO")
    refused(fedfleet("predict", spec, "--out", tmp_path / "no" / "page.html"), "--out")
    pooled = written(tmp_path, TINY + '[algorithm]\nuse = "centralized"\n', "pooled.toml")
    refused(fedfleet("predict", pooled, "--cache", cache), "trains in one place")
