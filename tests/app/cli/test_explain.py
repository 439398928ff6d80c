"""`fedfleet explain`."""

import json
import shutil

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


def test_counterfactuals_fill_the_contract_and_draw_a_page(tiny_run, fedfleet, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(tiny_run.out, folder)
    code, out, err = fedfleet("explain", folder, "--counterfactuals", "--target", "0.5", "--json")
    got = json.loads(out)
    assert code == 0 and "re-simulations" in err and "about" in err
    assert {"without", "virtual_seconds", "time_to_accuracy", "accuracy"} <= got["counterfactuals"][0].keys()
    assert got["target"] == 0.5 and got["shapley"].keys() == {"links", "computing", "reachability", "data", "faults"}
    assert "of the time was" in got["sentence"] and "Without unequal links" in got["sentence"]
    page = (folder / "explain.html").read_text()
    assert "What its time went into" in page and "What it would have been" in page
    code, out, _ = fedfleet("explain", folder, "--counterfactuals", "--target", "0.5")
    assert code == 0 and "time to 50.0 %" in out and "explain.html" in out


def test_a_target_that_nobody_can_mean_is_refused(tiny_run, fedfleet):
    refused(fedfleet("explain", tiny_run.out, "--counterfactuals", "--target", "1.5"), "--target")
    refused(fedfleet("explain", tiny_run.out, "--counterfactuals", "--workers", "0"), "--workers")


def test_options_of_a_simulation_without_one_are_refused(tiny_run, fedfleet):
    for option, value in (("--target", "0.5"), ("--workers", "2"), ("--cache", "kept")):
        refused(fedfleet("explain", tiny_run.out, option, value), option, "--counterfactuals")
