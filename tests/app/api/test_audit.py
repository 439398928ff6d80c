"""`fedfleet explain`."""

import json
import shutil
import sqlite3

import pytest

from tests.app.specs import refused, written
from tests.store.test_signatures import key_file

pytestmark = pytest.mark.slow


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


def test_a_run_goes_to_several_places(fedfleet, tiny_run, tmp_path):
    words = ["--to", f"jsonl:{tmp_path}/a.jsonl", "--to", f"tensorboard:{tmp_path}/tb"]
    code, out, _ = fedfleet("export", tiny_run.out, *words, "--json")
    answer = json.loads(out)
    assert code == 0 and answer["to"] == words[1::2] and answer["failed"] == []
    assert [p.name for p in (tmp_path / "tb").iterdir()] == [tiny_run.out.name]


def test_a_place_that_cannot_be_written_is_named_and_fails(fedfleet, tiny_run, tmp_path):
    (tmp_path / "file").touch()
    code, out, err = fedfleet("export", tiny_run.out, "--to", f"jsonl:{tmp_path}/file/a.jsonl")
    assert code == 1 and "none of them" in out and "failed and is not written to any more" in err


def test_what_cannot_be_exported(fedfleet, tiny_run, tmp_path):
    refused(fedfleet("export", tmp_path / "nowhere", "--to", f"jsonl:{tmp_path}/a"), "there is no run folder")
    refused(fedfleet("export", tiny_run.out, "--to", "tensorbord:x"), "did you mean 'tensorboard'")


def test_replay_rebuilds_and_says_so(tiny_run, fedfleet):
    code, printed, _ = fedfleet("replay", tiny_run.out, "--json")
    got = json.loads(printed)
    assert code == 0
    assert got["digest"] == tiny_run.metrics["digest"]
    assert got["commits"] == tiny_run.metrics["commits"]
    assert {"models", "arrivals", "picks", "scores"} <= set(got["verified"])
    assert got["not_verified"] == ["wall_seconds", "remarks", "checkpoints"]
    code, printed, _ = fedfleet("replay", tiny_run.out)
    assert "the replay matches" in printed


def test_a_quick_replay_trains_nothing_and_says_what_it_believed(tiny_run, fedfleet):
    code, printed, _ = fedfleet("replay", tiny_run.out, "--quick", "--json")
    got = json.loads(printed)
    assert code == 0
    assert {"models", "scores"} <= set(got["not_verified"]) and "arrivals" in got["verified"]
    assert "without --quick" in got["because"]


def test_a_folder_that_is_not_there_is_refused(fedfleet, tmp_path):
    refused(fedfleet("replay", tmp_path / "none"), "no run folder", "none")


@pytest.mark.parametrize("content", [b"not a database at all", b"SQLite format 3\x00" + b"\x07" * 4000])
def test_a_corrupt_journal_is_refused(run_copy, fedfleet, content):
    (run_copy / "run.db").write_bytes(content)
    refused(fedfleet("replay", run_copy), "run.db")
    refused(fedfleet("report", run_copy), "run.db")


def test_a_foreign_journal_is_refused(run_copy, fedfleet):
    (run_copy / "run.db").unlink()
    db = sqlite3.connect(run_copy / "run.db")
    db.execute("CREATE TABLE people (name TEXT)")
    db.close()
    refused(fedfleet("replay", run_copy), "was not written by FedFleet")


def test_a_journal_that_was_changed_does_not_replay(run_copy, fedfleet):
    db = sqlite3.connect(run_copy / "run.db")
    with db:
        db.execute("UPDATE events SET body = ? WHERE kind = 12 AND version = 2", ("0" * 64,))
    db.close()
    code, _, err = fedfleet("replay", run_copy)
    assert code == 1
    assert "of the journal is wrong" in err and "'committed at time" in err
    code, _, err = fedfleet("replay", run_copy, "--quick")
    assert code == 1
    assert "do not fit their link" in err


def test_a_run_is_signed_and_verified(tmp_path, fedfleet):
    key = key_file(tmp_path)
    assert fedfleet("run", written(tmp_path), "--out", tmp_path / "out", "--sign", key)[0] == 0
    code, printed, _ = fedfleet("verify", tmp_path / "out", "--signer", tmp_path / "key.pub", "--json")
    result = json.loads(printed)
    assert code == 0 and {"sealed", "signed_by", "verified", "not_verified"} <= result.keys()
    assert result["signed_by"].startswith("SHA256:")
    assert "is sealed, signed by SHA256:" in fedfleet("verify", tmp_path / "out")[1]


def test_a_folder_without_a_run_is_refused(tmp_path, fedfleet):
    refused(fedfleet("verify", tmp_path), "no journal")
    refused(fedfleet("verify", tmp_path / "none"), "no run folder")
