"""Private runs: what they say, that a secret and bare sums are nowhere, and replay with the key and without it."""

import json
from importlib.util import find_spec

import numpy as np
import pytest

import fedfleet as ff
from fedfleet.app.assemble import assemble
from fedfleet.app.pages.report_page import report_run
from fedfleet.app.runs import perform
from fedfleet.app.runs.extra_measures import (
    STUDY_WARNING,
    noise_source,
    served_noise_source,
    stored_class_measures,
    with_class_measures,
    with_privacy,
)
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.runs.served_run import AccessOptions, serve_run
from fedfleet.app.spec import load_spec, resolve
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.noise import add_noise
from fedfleet.core.parts import Dataset, Task
from fedfleet.executors import gather
from fedfleet.measure.privacy import gaussian_epsilon
from fedfleet.network.server.options import ServeOptions
from fedfleet.store.noise_source import VARIABLE, key_for
from tests.app.runs.flipping import killed_run
from tests.app.runs.tampering import reseal

# Not imported here, since every process of tests reads this file, and it takes seconds.
NEEDED = pytest.mark.skipif(find_spec("dp_accounting") is None, reason="dp_accounting is not installed: make dev")
pytestmark = [pytest.mark.slow, NEEDED]
SECRET = bytes(range(7, 207, 5))


def spec(use="gaussian", **more):
    private = {"use": use, "noise": 2.0, **({} if use == "local" else {"cohort": 4}), **more}
    return {
        "seed": 4,
        "task": "digits_logreg",
        "world": {"clients": 12, "devices": "spread"},
        "pace": {"use": "readiness", "cohort": 4},
        "stop": {"rounds": 5},
        "run": {"checkpoint_every": 1},
        "algorithm": {"use": "fedavg", "private": private},
    }


@pytest.fixture
def secret(tmp_path, monkeypatch):
    path = tmp_path / "noise.key"
    path.write_bytes(SECRET)
    monkeypatch.setenv(VARIABLE, str(path))
    return path


@pytest.mark.parametrize("use", ["gaussian", "tree", "local"])
def test_a_run_from_the_seed_is_a_study_and_says_so(use, tmp_path):
    done = perform(resolve(spec(use)), tmp_path / "run")
    said = done.answer()
    assert STUDY_WARNING in said["warnings"] and said["privacy"]["noise_from"] == "seed"
    assert (said["privacy"]["mechanism"], said["privacy"]["delta"]) == (use, 1e-5)
    assert said["privacy"]["epsilon"] > 0
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["privacy"] == said["privacy"]
    if use == "gaussian":
        assert said["privacy"]["epsilon"] == gaussian_epsilon(2.0, said["privacy"]["participations"], 1e-5)
    assert replay_run(done.out)["not_verified"] == ["wall_seconds", "remarks", "checkpoints"]
    assert not (done.out / "aggregates").exists()
    page = report_run(done.out)
    assert page["privacy"] == said["privacy"]
    assert "<h2>Privacy</h2>" in (done.out / "report.html").read_text()


@pytest.mark.parametrize(
    ("choose", "looks"),
    [
        ({"use": "only", "ids": [*range(8)], "selector": "oort"}, True),
        ({"use": "explore"}, False),
        ("round_robin", False),
    ],
)
def test_picking_by_what_no_noise_covers_is_said(choose, looks, tmp_path):
    done = perform(resolve({**spec(), "choose": choose}), tmp_path / "run")
    assert any("losses or norms that clients report" in w for w in done.answer()["warnings"]) == looks
    assert replay_run(done.out)["ok"]


def test_a_run_without_privacy_says_nothing_of_it(tiny_run):
    assert "privacy" not in tiny_run.answer() and "privacy" not in tiny_run.metrics


def test_a_run_in_memory_says_it_too():
    with pytest.warns(UserWarning, match="a study of privacy"):
        result = ff.run(spec()).metrics
    assert result["privacy"]["epsilon"] > 0 and STUDY_WARNING in result["warnings"]


# ---- a secret -----------------------------------------------------------------------------------------------------


def bare_sums(monkeypatch):
    """Sums before noise and after it, as gathering sees them."""
    seen = []

    def spying(noise, acc, key, commit):
        before = {n: v.copy() for n, v in acc.sums[""].sums.items()}
        after = add_noise(noise, acc, key, commit)
        seen.append((before, {n: v.copy() for n, v in after.sums[""].sums.items()}))
        return after

    monkeypatch.setattr(gather, "add_noise", spying)
    return seen


def everything(folder):
    return b"\n".join(p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file())


@pytest.mark.parametrize("execute", ["inline", "stacked"])
def test_neither_the_secret_nor_a_sum_without_noise_is_in_any_file(secret, tmp_path, monkeypatch, capfd, execute):
    seen = bare_sums(monkeypatch)
    done = perform(resolve({**spec(), "run": {"checkpoint_every": 1, "execute": execute}}), tmp_path / "run")
    report_run(done.out)
    said = json.loads((done.out / "executor.json").read_text())["noise"]
    key, written = key_for(said), everything(done.out) + "".join(capfd.readouterr()).encode()
    for hidden in (SECRET, key):
        for form in (hidden, hidden.hex().encode(), hidden[:16], hidden.hex()[:24].encode()):
            assert form not in written
    assert len(seen) == 5
    for before, after in seen:
        for leaf, bare in before.items():
            assert bare.tobytes() not in written
            assert (bare.astype(np.float64) / 2.0**28 / 4.0).astype(np.float32).tobytes() not in written, "nor their mean"
            assert after[leaf].tobytes() in written, "what is kept are the noised sums"
    assert done.answer()["privacy"]["noise_from"] == "secret" and STUDY_WARNING not in done.answer()["warnings"]


def test_with_the_key_everything_is_derived_again_and_without_it_what_can_be(secret, tmp_path, monkeypatch):
    done = perform(resolve(spec("tree")), tmp_path / "run")
    assert replay_run(done.out)["not_verified"] == ["wall_seconds", "remarks", "checkpoints"]
    monkeypatch.delenv(VARIABLE)
    result = replay_run(done.out)
    assert {"decisions", "models", "scores"} <= set(result["verified"])
    assert {"aggregates", "losses", "arrivals"} <= set(result["not_verified"])
    assert VARIABLE in result["because"]
    quick = replay_run(done.out, quick=True)
    assert "models" in quick["not_verified"]


def test_a_kept_aggregate_that_was_changed_is_found(secret, tmp_path, monkeypatch):
    done = perform(resolve(spec()), tmp_path / "run")
    monkeypatch.delenv(VARIABLE)
    path = done.out / "aggregates" / "00000002.safetensors"
    path.write_bytes((done.out / "aggregates" / "00000003.safetensors").read_bytes())
    with pytest.raises(RunFailed, match=r"aggregates/00000002\.safetensors was changed"):
        replay_run(done.out)
    (done.out / "seal.json").unlink()
    with pytest.raises(RunFailed):
        replay_run(done.out)


def test_the_wrong_secret_is_refused_before_anything_is_said_to_lie(secret, tmp_path):
    done = perform(resolve(spec()), tmp_path / "run")
    secret.write_bytes(bytes(range(60, 120)))
    with pytest.raises(BadInput, match="does not hold the secret of this run"):
        replay_run(done.out)


def test_a_killed_run_goes_on_with_its_secret_and_not_without(secret, tmp_path, monkeypatch):
    folder = killed_run(spec(), tmp_path / "killed", 2)
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(BadInput, match="comes from a secret"):
        perform(resolve(spec()), folder, resume=True)
    monkeypatch.setenv(VARIABLE, str(secret))
    done = perform(resolve(spec()), folder, resume=True)
    assert done.metrics["commits"] == 5
    assert replay_run(folder)["not_verified"] == ["wall_seconds", "remarks", "checkpoints"]


def test_two_runs_of_one_secret_draw_other_noise(secret, tmp_path):
    a, b = (perform(resolve(spec()), tmp_path / name).metrics["digest"] for name in "ab")
    assert a != b


def test_a_server_needs_a_secret_for_its_own_noise(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    path = tmp_path / "gaussian.toml"
    path.write_text(resolve(spec("gaussian")).toml())
    with pytest.raises(BadInput, match=f"needs a secret; .*{VARIABLE}"):
        serve_run(load_spec(path), tmp_path / "served", ServeOptions(address="127.0.0.1:0", devices=4), AccessOptions())
    assert not (tmp_path / "served").exists()


def test_noise_of_devices_comes_from_no_seed_and_needs_no_secret(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    local, central = (assemble(resolve(spec(use))).plan for use in ("local", "gaussian"))
    assert served_noise_source(noise_source(local.algorithm), local.algorithm) == {"from": "devices"}
    assert served_noise_source({"from": "seed"}, central.algorithm) == {"from": "seed"}
    measured = with_privacy({"warnings": []}, local, {"from": "devices"}, [])
    assert STUDY_WARNING not in measured["warnings"] and measured["privacy"]["noise_from"] == "devices"


def test_a_bad_secret_leaves_no_folder(secret, tmp_path):
    secret.write_bytes(b"short")
    with pytest.raises(BadInput, match="does not hold a secret"):
        perform(resolve(spec()), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_tells_what_its_model_takes_for_what(tiny_run):
    metrics = tiny_run.metrics
    matrix, classes = np.array(metrics["confusion"]), metrics["classes"]
    last = metrics["curve"]["accuracy"][-1]
    assert matrix.shape == (10, 10) and np.trace(matrix) / matrix.sum() == pytest.approx(last) == metrics["accuracy"]
    assert [one["n"] for one in classes] == matrix.sum(1).tolist()
    assert json.loads((tiny_run.out / "metrics.json").read_text())["confusion"] == metrics["confusion"]


@pytest.mark.parametrize("quick", [True, False])
def test_results_by_class_that_lie_are_found_out(run_copy, quick):
    path = run_copy / "metrics.json"
    said = json.loads(path.read_text())
    said["confusion"][0][0] += 1
    path.write_text(json.dumps(said, indent=1) + "\n")
    reseal(run_copy)
    with pytest.raises(RunFailed, match=r"metrics.json is wrong: confusion is .* follows from the model"):
        replay_run(run_copy, quick=quick)


def test_too_many_classes_or_labels_in_a_row_have_no_table():
    x = np.zeros((6, 2), np.float32)

    def found(y, classes):
        return with_class_measures({"a": 1}, Task("toy", Dataset(x, y, classes), np.arange(4), list, lambda seed: {}), {})

    nothing = {"a": 1, "classes": None, "confusion": None}
    assert found(np.zeros(6, np.int64), 101) == nothing
    assert found(np.zeros((6, 3), np.int64), 5) == nothing


def test_code_that_is_not_trusted_is_not_asked(coded):
    result = replay_run(coded.out)
    assert {"classes", "confusion"} <= set(result["not_verified"]) and sum(map(sum, coded.metrics["confusion"])) == 40


def test_what_was_found_is_kept_for_the_report(tiny_run, tmp_path):
    assert stored_class_measures(tiny_run.out) == {key: tiny_run.metrics[key] for key in ("classes", "confusion")}
    assert stored_class_measures(tmp_path) == {}
    (tmp_path / "metrics.json").write_text('{"classes": null}')
    assert stored_class_measures(tmp_path) == {}
