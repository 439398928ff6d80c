"""`fedfleet compare`."""

import json

import pytest

from fedfleet.app.runs import perform
from fedfleet.app.spec import load_spec
from tests.app.specs import refused, written


@pytest.fixture(scope="module")
def other_run(tmp_path_factory):
    """The tiny run on another seed, with a deadline."""
    folder = tmp_path_factory.mktemp("other")
    words = ["seed=4", "pace.use=deadline", "pace.seconds=30", "pace.cohort=4", "stop.rounds=2"]
    return perform(load_spec(written(folder), words), folder / "other").out


def test_a_program_gets_the_contract(tiny_run, other_run, fedfleet):
    code, out, err = fedfleet("compare", tiny_run.out, other_run, "--json")
    got = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert code == 0 and err == "" and {"differs", "runs", "verdict"} <= got.keys()
    assert got["differs"]["seed"] == [3, 4] and len(got["runs"]) == 2 and "page" not in got


def test_a_person_gets_a_table_and_a_verdict(tiny_run, other_run, fedfleet):
    code, out, _ = fedfleet("compare", tiny_run.out, other_run, "--target", "0.3")
    assert code == 0 and "accuracy at the end" in out and "time to 30.0 %" in out
    assert "no winner" in out


def test_what_cannot_be_compared_is_refused(tiny_run, other_run, fedfleet, tmp_path):
    refused(fedfleet("compare", tiny_run.out), "at least two runs")
    refused(fedfleet("compare", tiny_run.out, tiny_run.out), "given twice")
    refused(fedfleet("compare", tiny_run.out, tmp_path / "none"), "no run folder")
    refused(fedfleet("compare", tiny_run.out, tmp_path), "neither a run nor a study")
    refused(fedfleet("compare", tiny_run.out, other_run, "--target", "80"), "--target")
    refused(fedfleet("compare", tiny_run.out, other_run, "--out", tmp_path / "no/page.html"), "--out")
    refused(fedfleet("compare"), "RUN")
