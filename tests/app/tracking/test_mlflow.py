"""What an MLflow client is told of a run."""

from types import SimpleNamespace

import pytest

from fedfleet.app.tracking.mlflow import to_client
from fedfleet.app.tracking.run_follower import export_events
from fedfleet.app.tracking.sink import sinks_of


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
    assert export_events(sinks_of([word]), tiny_run.spec, "mine", tiny_run.events, tiny_run.metrics, pytest.fail) == [
        word
    ]
    client = tracking.MlflowClient(tracking_uri=word.removeprefix("mlflow:"))
    (run,) = client.search_runs([client.get_experiment_by_name(tiny_run.spec.name).experiment_id])
    assert run.data.metrics["accuracy"] == tiny_run.metrics["accuracy"] and run.info.status == "FINISHED"
    assert run.data.params["algorithm.use"] == "fedavg"
