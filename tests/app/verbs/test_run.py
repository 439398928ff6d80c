"""The command line as people and programs use it: answers, refusals, exit codes, what gets loaded."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from tests.app.specs import TINY, written


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run folder, and the spec beside it."""
    folder = tmp_path_factory.mktemp("run")
    spec = written(folder)
    words = [sys.executable, "-m", "fedfleet.app.cli", "run", spec, "--out", folder / "out", "--json"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return folder / "out", spec, json.loads(done.stdout)


def refused(answer, *mentions):
    code, out, err = answer
    assert code == 2, (out, err)
    assert out == ""
    assert len(err.strip().splitlines()) == 1, err
    assert "Traceback" not in err
    for mention in mentions:
        assert mention in err, err


def test_run_answers_by_the_contract(finished):
    out, _, answer = finished
    assert list(answer) == [
        "digest", "rounds", "commits", "accuracy", "accuracy_clients", "accuracy_bottom10", "accuracy_std",
        "virtual_seconds", "wall_seconds", "bytes_up", "bytes_down", "utilisation", "out",
    ]  # fmt: skip
    assert {"spec.toml", "run.db", "model.safetensors", "metrics.json", "report.html"} <= {
        p.name for p in out.iterdir()
    }
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
    assert json.loads(out)["ok"] is True
    assert not (tmp_path / "runs").exists()
    refused(fedfleet("run", written(tmp_path), "pace.cohort=99", "--check"), "larger than the fleet")


def test_replay_rebuilds_and_says_so(finished, fedfleet):
    out, _, answer = finished
    code, printed, _ = fedfleet("replay", out, "--json")
    got = json.loads(printed)
    assert code == 0
    assert got["digest"] == answer["digest"]
    assert got["commits"] == answer["commits"]
    assert got["verified_by"] == "training again"
    assert got["model_file"] == "identical"
    code, printed, _ = fedfleet("replay", out)
    assert "follow from them" in printed


def test_report_of_a_folder(finished, fedfleet):
    out, _, answer = finished
    code, printed, _ = fedfleet("report", out, "--json")
    assert code == 0
    assert json.loads(printed)["digest"] == answer["digest"]
    page = (out / "report.html").read_text()
    assert "<svg" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", ""), "self-contained: nothing is fetched"


def test_list_and_version(fedfleet):
    code, out, _ = fedfleet("list", "policies", "--json")
    got = json.loads(out)
    assert code == 0
    assert got["kind"] == "policies"
    assert {i["name"] for i in got["items"]} >= {"readiness", "deadline", "overcommit"}
    assert {"name", "summary", "parameters"} == set(got["items"][0])
    assert fedfleet("version")[1].startswith("fedfleet ")
    refused(fedfleet("list", "policy"), "did you mean 'policies'")


def test_bad_input_is_one_sentence_and_exit_code_2(fedfleet, tmp_path):
    spec = written(tmp_path)
    out = tmp_path / "out"
    refused(fedfleet("run", spec, "algorithm.use=fedavgg", "--out", out), "did you mean 'fedavg'")
    refused(fedfleet("run", spec, "pace.cohrt=5", "--out", out), "did you mean 'cohort'")
    refused(fedfleet("run", spec, "pace.cohort=many", "--out", out), "pace.cohort")
    refused(fedfleet("run", spec, "pace.t_break=-3.0", "--out", out), "greater than 0")
    refused(fedfleet("run", spec, "pace.cohort=13", "--out", out), "larger than the fleet")
    refused(fedfleet("run", tmp_path / "none.toml"), "none.toml")
    refused(
        fedfleet("run", spec, "world.states.use=state_file", "world.states.path=none.json", "--out", out), "none.json"
    )
    refused(fedfleet("runn", spec), "Did you mean 'run'")
    refused(fedfleet("run", spec, "--uot", "x"), "--out")
    refused(fedfleet("replay", tmp_path / "none"), "none")
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
    refused(fedfleet("run", spec, "--out", spec), "exists")


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


@pytest.mark.parametrize("content", [b"not a database at all", b"SQLite format 3\x00" + b"\x07" * 4000])
def test_a_corrupt_journal_is_refused(finished, fedfleet, tmp_path, content):
    broken = shutil.copytree(finished[0], tmp_path / "broken")
    (broken / "run.db").write_bytes(content)
    refused(fedfleet("replay", broken), "run.db")
    refused(fedfleet("report", broken), "run.db")


def test_a_foreign_journal_is_refused(finished, fedfleet, tmp_path):
    foreign = shutil.copytree(finished[0], tmp_path / "foreign")
    (foreign / "run.db").unlink()
    db = sqlite3.connect(foreign / "run.db")
    db.execute("CREATE TABLE people (name TEXT)")
    db.close()
    refused(fedfleet("replay", foreign), "was not written by FedFleet")


def test_a_journal_that_was_changed_does_not_replay(finished, fedfleet, tmp_path):
    changed = shutil.copytree(finished[0], tmp_path / "changed")
    db = sqlite3.connect(changed / "run.db")
    with db:
        db.execute("UPDATE events SET body = ? WHERE kind = 12 AND version = 2", ("0" * 64,))
    db.close()
    code, _, err = fedfleet("replay", changed)
    assert code == 1
    assert "not this run, or changed" in err


def test_a_folder_that_cannot_be_written_is_refused(fedfleet, tmp_path):
    spec = written(tmp_path)
    refused(fedfleet("run", spec, "--out", "/proc/fedfleet-cannot-write-here"), "cannot be made or written")
    (tmp_path / "file").write_text("")
    refused(fedfleet("run", spec, "--out", tmp_path / "file" / "out"), "cannot be made or written")


@pytest.mark.skipif(
    os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write anywhere, and setpriv is missing"
)
def test_a_read_only_folder_is_refused(tmp_path):
    spec = written(tmp_path)
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    for parent in (p for p in (tmp_path, *tmp_path.parents) if "pytest" in str(p)):
        parent.chmod(0o755)
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    words = [*drop, sys.executable, "-m", "fedfleet.app.cli", "run", spec, "--out", locked / "out"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 126 or ("Permission denied" in done.stderr and "fedfleet:" not in done.stderr):
        pytest.skip("the interpreter itself cannot be reached without privileges here")
    refused((done.returncode, done.stdout, done.stderr), "locked", "--out")


def test_an_interrupted_run_says_how_to_resume_and_does(finished, tmp_path):
    _, _, _ = finished
    spec = written(tmp_path, TINY.replace("rounds = 6", "rounds = 300"))
    out = tmp_path / "out"
    words = [sys.executable, "-m", "fedfleet.app.cli", "run", spec, "--out", out]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not list(out.glob("checkpoint-*")) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"resume with: fedfleet run {spec} --resume --out {out}" in err
    assert "Traceback" not in err
    again = subprocess.run([*words, "--resume", "--json"], check=True, capture_output=True, text=True)
    straight = subprocess.run(
        [*words[:-1], tmp_path / "straight", "--json"], check=True, capture_output=True, text=True
    )
    assert json.loads(again.stdout)["digest"] == json.loads(straight.stdout)["digest"]


LOADED = "import sys; heavy = [m for m in {heavy} if m in sys.modules]; print(heavy); sys.exit(bool(heavy))"


@pytest.mark.parametrize(
    ("setup", "heavy"),
    [
        ("import fedfleet", ("numpy", "torch", "numba", "scipy", "ray", "grpc", "pydantic", "typer")),
        ("from fedfleet.app import cli", ("torch", "numba", "scipy", "ray", "grpc", "sklearn", "numpy")),
    ],
)
def test_what_an_import_loads(setup, heavy):
    code = f"{setup}; {LOADED.format(heavy=heavy)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("words", [["--help"], ["version"], ["list", "algorithms"], ["list", "tasks"], ["run", "BAD"]])
def test_light_verbs_load_nothing_heavy(words, tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text("[pace]\ncohrt = 3\n")
    words = [str(bad) if w == "BAD" else w for w in words]
    heavy = ("torch", "numba", "scipy", "ray", "grpc", "sklearn")
    code = (
        "import sys\nfrom fedfleet.app import cli\n"
        f"sys.argv = ['fedfleet', *{words!r}]\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    pass\n"
        f"loaded = [m for m in {heavy} if m in sys.modules]\nprint('LOADED', loaded)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "LOADED []" in done.stdout
