"""Sinks are named by words; what cannot be is refused before the run."""

import json
import os
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from fedfleet.app.tracking.points import Point
from fedfleet.app.tracking.run_follower import export_events
from fedfleet.app.tracking.sink import json_log, jsonlines, numbers_in, sinks_of, to_client
from fedfleet.core.errors import BadInput
from tests.app.tracking.stand_in import stand_in


def test_words_name_sinks(tmp_path):
    names = [sink.name for sink in sinks_of([f"jsonl:{tmp_path}/a:b.jsonl", f"tensorboard:{tmp_path}"])]
    assert names == [f"jsonl:{tmp_path}/a:b.jsonl", f"tensorboard:{tmp_path}"]
    assert not [*tmp_path.iterdir()]  # nothing is written before there is something to write


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("tensorbord:x", "did you mean 'tensorboard'"),
        ("jsonl", "does not say where.*jsonl:FILE"),
        ("mlflow:", "does not say where.*mlflow:sqlite"),
        ("wandb", "does not say where.*wandb:DIR"),
        ("wanbd:runs", "did you mean 'wandb'"),
        ("runs/log", "known: jsonl, mlflow, tensorboard, wandb"),
        (3, "3 is not a tracking target"),
    ],
)
def test_words_that_name_none(word, said):
    with pytest.raises(BadInput, match=said):
        sinks_of([word])


@pytest.mark.parametrize(
    ("word", "module", "extra"),
    [
        ("tensorboard:x", "tensorboard.compat.proto", "track"),
        ("mlflow:x", "mlflow.entities", "track"),
        ("wandb:x", "wandb", "wandb"),
    ],
)
def test_the_extra_that_brings_a_tool_is_named(monkeypatch, word, module, extra):
    monkeypatch.setitem(sys.modules, module.partition(".")[0], None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BadInput, match=rf"pip install 'fedfleet\[{extra}\]'"):
        sinks_of([word])


def test_a_folder_of_its_name_is_not_the_package(monkeypatch, tmp_path):
    (tmp_path / "wandb").mkdir()  # as W&B itself makes it
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(BadInput, match="needs the package wandb"):
        sinks_of(["wandb:wandb"])
    monkeypatch.delitem(sys.modules, "wandb", raising=False)


def test_runs_of_wandb_stay_on_this_machine(monkeypatch, tiny_run, tmp_path):
    module = stand_in()
    monkeypatch.setitem(sys.modules, "wandb", module)
    word = f"wandb:{tmp_path / 'deep' / 'folder'}"
    spec = replace(tiny_run.spec, name="fast/slow: 50 %")
    assert export_events(sinks_of(word), spec, "mine", tiny_run.events, tiny_run.metrics, pytest.fail) == [word]
    (run,) = module.runs
    assert run.asked["project"] == "fast-slow-50-" and run.asked["name"] == "mine" and run.asked["reinit"] == "create_new"
    assert run.asked["config"]["algorithm"]["lr"] == 0.1 and run.asked["config"]["spec_digest"] == spec.digest
    curve = tiny_run.metrics["curve"]
    tried = [row for row in run.rows.values() if "accuracy" in row]
    assert [row["accuracy"] for row in tried] == curve["accuracy"]
    assert [row["virtual_seconds"] for row in tried] == curve["seconds"]
    assert list(run.rows) == list(range(tiny_run.metrics["rounds"] + 1)) and all("bytes_up" in run.rows[i] for i in (1, 6))
    assert run.summary["end.accuracy"] == tiny_run.metrics["accuracy"] and run.exit_code == 0
    assert (tmp_path / "deep/folder/wandb/offline-run-mine").is_dir()
    assert os.environ["WANDB_ERROR_REPORTING"] == "false"
    export_events(sinks_of(word), spec, "stopped", tiny_run.events[:3], None, pytest.fail)
    assert module.runs[1].exit_code == 1 and not module.runs[1].summary


def test_only_finite_numbers_are_measures():
    assert numbers_in({"a": float("nan"), "b": True, "c": {"d": 1, "e": "x"}}) == {"c.d": 1.0}


def test_event_files_hold_curves_the_spec_and_the_end(tiny_run, tmp_path):
    loading = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    word = f"tensorboard:{tmp_path}"
    assert export_events(sinks_of([word]), tiny_run.spec, "mine", tiny_run.events, tiny_run.metrics, pytest.fail) == [word]
    (path,) = (tmp_path / "mine").iterdir()
    events = list(loading.LegacyEventFileLoader(str(path)).Load())
    values = [(v.tag, e.step, e.wall_time, v) for e in events for v in e.summary.value]
    curve = [(step, wall, v.simple_value) for tag, step, wall, v in values if tag == "learning/accuracy"]
    seconds, accuracy = tiny_run.metrics["curve"]["seconds"], tiny_run.metrics["curve"]["accuracy"]
    assert [a for _, _, a in curve] == pytest.approx(accuracy)
    assert [wall - curve[0][1] for _, wall, _ in curve] == pytest.approx(seconds, abs=1e-3)  # relative time is virtual
    assert curve[-1][0] == tiny_run.metrics["rounds"]
    ends = {tag: v.simple_value for tag, _, _, v in values if tag.startswith("end/")}
    assert ends["end/accuracy"] == pytest.approx(tiny_run.metrics["accuracy"])
    assert any(tag == "spec" and b"digits_logreg" in v.tensor.string_val[0] for tag, _, _, v in values)


class Client:
    """A client that remembers."""

    def __init__(self):
        self.params, self.metrics, self.ended, self.homes = {}, [], None, []

    def get_experiment_by_name(self, name):
        return None

    def create_experiment(self, name):
        self.homes.append(name)
        return "7"

    def create_run(self, home, *, run_name, tags):
        self.named = (home, run_name, tags)
        return SimpleNamespace(info=SimpleNamespace(run_id="r"))

    def log_batch(self, run, metrics=(), params=()):
        assert len(params) <= 100 and len(metrics) <= 1000
        self.metrics += metrics
        self.params |= dict(params)

    def set_terminated(self, run, status):
        self.ended = status


def test_settings_are_parameters_and_points_are_metrics(tiny_run):
    client = Client()
    sink = to_client("mlflow:x", lambda: client, lambda *m: m, lambda *p: p)
    export_events([sink], tiny_run.spec, "mine", tiny_run.events, tiny_run.metrics, pytest.fail)
    assert client.homes == [tiny_run.spec.name] and client.named[:2] == ("7", "mine") and client.ended == "FINISHED"
    assert client.params["algorithm.lr"] == "0.1" and client.params["pace.use"] == "readiness"
    curve = [(value, at, step) for key, value, at, step in client.metrics if key == "accuracy"]
    assert [value for value, _, _ in curve] == tiny_run.metrics["curve"]["accuracy"]
    assert curve[-1][2] == tiny_run.metrics["rounds"]
    assert curve[-1][1] - curve[0][1] == pytest.approx(1000 * tiny_run.metrics["virtual_seconds"], abs=2)
    assert ("end.accuracy", tiny_run.metrics["accuracy"]) in [(key, value) for key, value, _, _ in client.metrics]


def test_a_run_that_stopped_is_killed_there_too(tiny_run):
    client = Client()
    sink = to_client("mlflow:x", lambda: client, lambda *m: m, lambda *p: p)
    export_events([sink], tiny_run.spec, "mine", tiny_run.events[:3], None, pytest.fail)
    assert client.ended == "KILLED"


@pytest.mark.soak
def test_the_real_client(tiny_run, tmp_path):
    tracking = pytest.importorskip("mlflow.tracking")
    word = f"mlflow:sqlite:///{tmp_path}/mlflow.db"
    assert export_events(sinks_of([word]), tiny_run.spec, "mine", tiny_run.events, tiny_run.metrics, pytest.fail) == [word]
    client = tracking.MlflowClient(tracking_uri=word.removeprefix("mlflow:"))
    (run,) = client.search_runs([client.get_experiment_by_name(tiny_run.spec.name).experiment_id])
    assert run.data.metrics["accuracy"] == tiny_run.metrics["accuracy"] and run.info.status == "FINISHED"
    assert run.data.params["algorithm.use"] == "fedavg"


def strict(line):
    return json.loads(line, parse_constant=lambda word: 1 / 0)


def test_a_file_of_lines_that_grows(tiny_run, tmp_path):
    path = tmp_path / "deep" / "log.jsonl"
    for _ in range(2):
        sink = jsonlines(str(path))
        sink.begin(tiny_run.spec, "mine")
        sink.write(Point("round", 1, 2.5, {"loss": float("nan")}))
        assert len(path.read_text().splitlines()) in (2, 5)  # seen while the run goes on
        sink.end(tiny_run.metrics)
    result = [strict(line) for line in path.read_text().splitlines()]
    assert result[:3] == result[3:]
    assert result[0]["run"] == "mine" and result[1]["loss"] is None
    assert result[2]["accuracy"] == tiny_run.metrics["accuracy"]


def test_the_log_is_standard_error(tiny_run, capsys):
    sink = json_log()
    sink.begin(tiny_run.spec, "mine")
    sink.end(None)
    out, err = capsys.readouterr()
    assert out == "" and [strict(line)["event"] for line in err.splitlines()] == ["begun", "stopped"]
    assert all(strict(line)["level"] == "info" for line in err.splitlines())
