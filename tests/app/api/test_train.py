"""`fedfleet run`: its answer, what it refuses, how it resumes."""

import html
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

from fedfleet.app.pages.html import bind_units
from fedfleet.app.pages.report.number_words import as_people
from tests import processes
from tests.app.specs import TINY, refused, written

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run in another process: its folder, its spec, and its answer."""
    folder = tmp_path_factory.mktemp("run")
    spec = written(folder)
    done = processes.run("fedfleet.app.cli.main", "run", spec, "--out", folder / "out", "--json")
    assert done.returncode == 0, done.stderr
    return folder / "out", spec, json.loads(done.stdout)


def test_run_answers_by_the_contract(finished):
    out, _, answer = finished
    assert list(answer) == [
        "digest", "rounds", "commits", "accuracy", "accuracy_clients", "accuracy_bottom10", "accuracy_std",
        "virtual_seconds", "wall_seconds", "bytes_up", "bytes_down", "utilisation",
        "failed_rounds", "warnings", "out",
    ]  # fmt: skip
    assert {"spec.toml", "run.db", "model.safetensors", "metrics.json", "report.html"} <= {p.name for p in out.iterdir()}
    assert answer["rounds"] == 6
    assert set(answer["utilisation"]) == {"mean", "sd"}


def test_the_same_spec_gives_the_same_digest_in_another_process(finished, fedfleet, tmp_path):
    _, spec, answer = finished
    code, out, _ = fedfleet("run", spec, "--out", tmp_path / "again", "--json")
    assert code == 0
    assert json.loads(out)["digest"] == answer["digest"]
    code, out, _ = fedfleet("run", spec, "seed=4", "--out", tmp_path / "other", "--json")
    assert json.loads(out)["digest"] != answer["digest"]


def test_the_resolved_spec_of_a_run_repeats_it(finished, fedfleet, tmp_path):
    out, _, answer = finished
    _, printed, _ = fedfleet("run", out / "spec.toml", "--out", tmp_path / "again", "--json")
    assert json.loads(printed)["digest"] == answer["digest"]


def test_people_get_sentences(fedfleet, tmp_path):
    code, out, err = fedfleet("run", written(tmp_path), "--out", tmp_path / "out")
    assert code == 0
    assert err == "", "no progress bar when standard error is no terminal"
    assert "6 rounds" in out
    assert "report.html" in out


def test_check_validates_only(fedfleet, tmp_path):
    code, out, _ = fedfleet("run", written(tmp_path), "--check", "--json")
    assert code == 0
    answer = json.loads(out)
    assert list(answer) == ["ok", "spec_digest", "warnings"]
    assert (answer["ok"], answer["warnings"]) == (True, [])
    assert not (tmp_path / "runs").exists()
    refused(fedfleet("run", written(tmp_path), "pace.cohort=99", "--check"), "more than the fleet")


def test_check_and_run_warn_of_what_can_never_happen(fedfleet, tmp_path):
    spec, words = written(tmp_path), ["pace.use=deadline", "pace.cohort=4", "pace.seconds=0.001"]
    code, out, err = fedfleet("run", spec, *words, "--check", "--json")
    (said,) = json.loads(out)["warnings"]
    assert code == 0
    assert "can report within 0.001 s" in said
    assert err == f"fedfleet: WARNING: {said}\n"
    code, out, err = fedfleet("run", spec, *words, "--out", tmp_path / "out", "--json")
    assert code == 1
    assert err.startswith(f"fedfleet: WARNING: {said}\n"), "told before the run"
    after, better = json.loads(out)["warnings"]
    assert "tasks were given up after 0.001 s, half of all trips" in better and "raise pace.seconds to" in better
    assert "no model was made: all 6 rounds failed (0 of at least 1 reports arrived); no client reported within" in after
    assert f"WARNING: {after}" in err
    page = html.unescape((tmp_path / "out/report.html").read_text())
    assert bind_units(as_people(after)) in page, "on the page in its words"


def test_a_fleet_that_sleeps_is_explained_and_cured_by_waiting(fedfleet, tmp_path):
    rows = [{"id": "s", "start": 0, "end": 86400, "ready": [[40_000, 60_000]]}] * 12
    (tmp_path / "states.json").write_text(json.dumps({"format": "fedfleet/states@1", "states": rows}))
    words = ["world.states.use=state_file", f"world.states.path={tmp_path}/states.json", "stop.rounds=180"]
    code, out, err = fedfleet("run", written(tmp_path), *words, "pace.if_few=fail", "--out", tmp_path / "burnt")
    assert code == 1
    assert "failed rounds: 180 (180 x fewer than 2 clients could be selected)" in out
    assert "no client was reachable in these rounds before 01:00 of the first day" in err
    assert 'pace.if_few = "wait"' in err
    page = (tmp_path / "burnt/report.html").read_text()
    assert "<h2>Failed rounds</h2>" in page and "before 01:00 of the first day" in page
    replayed = json.loads(fedfleet("replay", tmp_path / "burnt", "--json")[1])
    assert replayed["ok"] and not {"models", "losses"} & {*replayed["verified"]}
    assert "with no models: OK" in fedfleet("replay", tmp_path / "burnt")[1]
    code, out, _ = fedfleet("run", written(tmp_path), *words, "stop.commits=4", "--out", tmp_path / "waited", "--json")
    answer = json.loads(out)
    assert (code, answer["rounds"], answer["commits"], answer["failed_rounds"]) == (0, 4, 4, {})
    assert json.loads((tmp_path / "waited/metrics.json").read_text())["stopped_by"] == "commits"
    assert json.loads(fedfleet("replay", tmp_path / "waited", "--json")[1])["ok"]


def test_a_model_that_is_no_better_than_chance_is_no_quiet_success(fedfleet, tmp_path):
    code, out, err = fedfleet("run", written(tmp_path), "algorithm.lr=1e-9", "--out", tmp_path / "out", "--json")
    assert code == 0
    assert "the model is no better than chance" in json.loads(out)["warnings"][0]
    assert "WARNING: the model is no better than chance" in err
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    assert 0.09 < metrics["chance"] < 0.2
    assert json.loads(fedfleet("replay", tmp_path / "out", "--json")[1])["ok"], "replay derives the same measures"
    assert json.loads(fedfleet("report", tmp_path / "out", "--json")[1])["warnings"] == metrics["warnings"]


def test_bad_input_is_one_sentence_and_exit_code_2(fedfleet, tmp_path):
    spec = written(tmp_path)
    out = tmp_path / "out"
    refused(fedfleet("run", spec, "algorithm.use=fedavgg", "--out", out), "did you mean 'fedavg'")
    refused(fedfleet("run", spec, "pace.cohrt=5", "--out", out), "did you mean 'cohort'")
    refused(fedfleet("run", spec, "pace.cohort=many", "--out", out), "pace.cohort")
    refused(fedfleet("run", spec, "pace.t_break=-3.0", "--out", out), "greater than 0")
    refused(fedfleet("run", spec, "pace.cohort=13", "--out", out), "more than the fleet")
    refused(fedfleet("run", tmp_path / "none.toml"), "none.toml")
    refused(fedfleet("run", spec, "world.states.use=state_file", "world.states.path=none.json", "--out", out), "none.json")
    refused(fedfleet("run", spec, "--uot", "x"), "--out")
    assert not out.exists(), "nothing is written for a spec that cannot run"


def test_a_folder_that_exists_is_never_written_to(finished, fedfleet, tmp_path):
    out, spec, _ = finished
    before = {p.name: p.stat().st_mtime_ns for p in out.iterdir()}
    refused(fedfleet("run", spec, "--out", out), "exists", "--resume")
    assert {p.name: p.stat().st_mtime_ns for p in out.iterdir()} == before
    other = tmp_path / "notes"
    other.mkdir()
    (other / "mine.txt").write_text("keep")
    refused(fedfleet("run", spec, "--resume", "--out", other), "not a run")
    refused(fedfleet("run", spec, "--out", spec), "is a file; name a folder")


def test_resume_with_another_spec_is_refused(finished, fedfleet):
    out, spec, _ = finished
    refused(fedfleet("run", spec, "algorithm.lr=0.2", "--resume", "--out", out), "algorithm.lr is 0.1 there, 0.2 here")


def test_resume_of_a_finished_run_answers_what_it_found(finished, fedfleet):
    out, spec, answer = finished
    code, printed, _ = fedfleet("run", spec, "run.threads=1", "--resume", "--out", out, "--json")
    assert code == 0
    assert json.loads(printed)["digest"] == answer["digest"]


def test_resume_starts_afresh_on_an_empty_folder(finished, fedfleet, tmp_path):
    _, spec, answer = finished
    (tmp_path / "out").mkdir()
    _, printed, _ = fedfleet("run", spec, "--resume", "--out", tmp_path / "out", "--json")
    assert json.loads(printed)["digest"] == answer["digest"]


def test_a_folder_that_cannot_be_written_is_refused(fedfleet, tmp_path):
    spec = written(tmp_path)
    refused(fedfleet("run", spec, "--out", "/proc/fedfleet-cannot-write-here"), "cannot create or write")
    (tmp_path / "file").write_text("")
    refused(fedfleet("run", spec, "--out", tmp_path / "file" / "out"), "cannot create or write")


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write anywhere, and setpriv is missing")
def test_a_read_only_folder_is_refused(tmp_path):
    spec = written(tmp_path)
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    for parent in (p for p in (tmp_path, *tmp_path.parents) if "pytest" in str(p)):
        parent.chmod(0o755)
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    words = [*drop, sys.executable, "-m", "fedfleet.app.cli.main", "run", spec, "--out", locked / "out"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 126 or ("Permission denied" in done.stderr and "fedfleet:" not in done.stderr):
        pytest.skip("the interpreter itself cannot be reached without privileges here")
    refused((done.returncode, done.stdout, done.stderr), "locked", "--out")


def test_an_interrupted_run_says_how_to_resume_and_does(fedfleet, tmp_path):
    spec = written(tmp_path, TINY.replace("rounds = 6", "rounds = 100"))
    out = tmp_path / "out"
    with (tmp_path / "err").open("w") as err:
        process = processes.start("fedfleet.app.cli.main", "run", spec, "--out", out, stdout=subprocess.DEVNULL, stderr=err)
    until = time.monotonic() + 60
    while not list(out.glob("checkpoint-*")) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    code, err = process.wait(60), (tmp_path / "err").read_text()
    assert code == 130, err
    assert f"resume with: fedfleet run {spec} --resume --out {out}" in err
    assert "Traceback" not in err
    again = fedfleet("run", spec, "--resume", "--out", out, "--json")
    straight = fedfleet("run", spec, "--out", tmp_path / "straight", "--json")
    assert json.loads(again[1])["digest"] == json.loads(straight[1])["digest"]


@pytest.mark.parametrize("begun", [True, False])
def test_an_interrupt_offers_to_resume_only_what_is_there_in_words_that_can_be_pasted(fedfleet, tmp_path, monkeypatch, begun):
    def interrupted(spec, out, **_):
        if begun:
            out.mkdir()
            (out / "run.db").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("fedfleet.app.runs.perform", interrupted)
    out = tmp_path / "my run"
    code, _, err = fedfleet("run", written(tmp_path), "--out", out)
    assert code == 130
    if begun:
        assert shlex.split(err.split("resume with: ")[1])[-2:] == ["--out", str(out)]
    else:
        assert "interrupted before anything was kept; run the same command again" in err and "--resume" not in err


def test_an_override_before_the_spec_is_told_apart(fedfleet, tmp_path):
    refused(fedfleet("run", "stop.rounds=3", written(tmp_path)), "the spec file comes first")


def test_a_run_that_made_no_model_says_why_and_exits_with_one(fedfleet, tmp_path):
    code, out, err = fedfleet("run", written(tmp_path), "algorithm.bound=1e-9", "--out", tmp_path / "run", "--json")
    answer = json.loads(out)
    assert code == 1
    assert answer["commits"] == 0
    assert answer["failed_rounds"] == {"no report could be folded": answer["rounds"]}
    assert "no model was made" in answer["warnings"][0]
    assert "WARNING: no model was made" in err
    assert "no model was made" in (tmp_path / "run/report.html").read_text()


def test_a_rate_that_is_not_finite_is_refused(fedfleet, tmp_path):
    refused(fedfleet("run", written(tmp_path), "algorithm.lr=inf", "--check"), "algorithm.lr = inf")


def test_a_run_is_tracked_while_it_goes_on_and_logged_as_lines_of_json(fedfleet, tmp_path):
    spec, log = written(tmp_path), tmp_path / "a.jsonl"
    words = ["stop.rounds=2", "--out", tmp_path / "out", "--track", f"jsonl:{log}", "--log-json", "--json"]
    code, out, err = fedfleet("run", spec, *words)
    assert code == 0 and json.loads(out)["rounds"] == 2
    logged = [json.loads(line) for line in err.splitlines()]
    assert next(line["event"] for line in logged if "event" in line) == "begun" and {"level"} <= logged[-1].keys()
    tracked = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["event"] for line in tracked].count("round") == 2 and tracked[-1]["event"] == "ended"
    code, _, err = fedfleet("run", spec, "algorithm.lr=inf", "--log-json")
    assert code == 2 and json.loads(err)["level"] == "error"
    refused(fedfleet("run", spec, "--out", tmp_path / "new", "--track", "jsnl:x"), "did you mean 'jsonl'")
    assert not (tmp_path / "new").exists()
