"""`fedfleet explain`."""

import json

from tests.app.specs import refused


def test_a_program_gets_the_contract(tiny_run, fedfleet):
    code, out, _ = fedfleet("explain", tiny_run.out, "--json")
    got = json.loads(out)
    assert code == 0 and {"virtual_seconds", "causes", "counterfactuals", "shapley", "sentence"} <= got.keys()
    assert abs(sum(got["causes"].values()) - got["virtual_seconds"]) < 1e-6
    assert "longest_rounds" not in got


def test_a_person_gets_a_table_and_a_sentence(tiny_run, fedfleet):
    code, out, _ = fedfleet("explain", tiny_run.out, "--rounds", "2")
    assert code == 0 and "of the time was" in out.splitlines()[-1]
    assert "went into" in out and "pause" in out


def test_what_is_no_run_is_refused(fedfleet, tmp_path):
    refused(fedfleet("explain", tmp_path / "none"), "no run folder")
    refused(fedfleet("explain", tmp_path), "no journal")
    refused(fedfleet("explain", tmp_path, "--rounds", "-1"), "--rounds")
