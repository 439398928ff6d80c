"""Whatever people bring, everywhere: {table, own code, builtin} x {kinds of tasks} x {every verb}; a cell works, or one sentence
names the alternative."""

import threading

import pytest

import fedfleet
from fedfleet.app.api.audit import explain
from fedfleet.app.api.own_task import Columns, take_task
from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.app.runs.served_run import AccessOptions, serve_run
from fedfleet.app.spec import resolve
from fedfleet.network.device.client_loop import Device, DeviceOptions
from fedfleet.network.device.device_store import DeviceStore
from fedfleet.network.device.server_calls import Connection
from fedfleet.network.server.options import ServeOptions
from tests.app.own_files import KINDS, PEOPLE, write_data, write_model
from tests.app.runs.test_served_run import free_address

SOURCES = ("table", "own", "builtin")
BUILTIN = {"classification": "digits_logreg", "regression": "diabetes_mlp", "multilabel": "digits_traits", "next_token": "text_gpt"}
SMALL = {"next_token": {"width": 8, "depth": 1, "heads": 2, "window": 16}, "regression": {"hidden": 4}}
FLEET = {"world": {"clients": PEOPLE}, "pace": {"cohort": 2, "t_break": 0.01}, "stop": {"rounds": 2}, "run": {"execute": "inline"}}
# Every kind and every source at least once; the soak takes all.
SAMPLE = {("table", "classification"), ("own", "regression"), ("builtin", "multilabel"), ("table", "next_token")}
CELLS = [
    pytest.param(source, kind, marks=[] if (source, kind) in SAMPLE else pytest.mark.soak) for source in SOURCES for kind in KINDS
]


def spec_of(source, kind, folder):
    """The table of a spec for this cell."""
    if source == "builtin":
        return {**FLEET, "task": {"use": BUILTIN[kind], **SMALL.get(kind, {})}}
    path, columns = write_data(folder, kind)
    net = "Reader" if kind == "next_token" else "Net"
    model = f"{write_model(folder)}:{net}" if source == "own" else None
    return take_task({**FLEET, "world": {}}, [], model, str(path), Columns(**columns))[0]


def attend(client, address, folder, results):
    """One device of a rehearsal."""
    store, line = DeviceStore(folder / f"device{client}"), Connection(address, None)
    options = DeviceOptions(client=client)
    results[client] = Device(line, store, options, lambda sheet, fetch: build_client_runtime(sheet, None, fetch), str).run()
    line.close()
    store.close()


def served(table, folder):
    """The same spec, served to as many devices on threads as a round asks."""
    whole = {**table, "pace": {"cohort": PEOPLE, "t_break": 0.01}, "stop": {"rounds": 1}}
    address, results = free_address(), {}
    devices = [threading.Thread(target=attend, args=(c, address, folder, results), daemon=True) for c in range(PEOPLE)]
    for device in devices:
        device.start()
    done = serve_run(
        resolve(whole),
        folder / "served",
        ServeOptions(address=address, devices=PEOPLE, transmitters=0, quiet=True),
        AccessOptions(),
    )
    for device in devices:
        device.join(120)
    return done, fedfleet.run(whole, out=folder / "simulated"), results


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("source", "kind"), CELLS)
def test_everything_takes_every_kind_of_task_from_every_source(source, kind, tmp_path):
    table = spec_of(source, kind, tmp_path)
    # run
    first = fedfleet.run(table, out=tmp_path / "first")
    assert first.metrics["commits"] == 2 and first.metrics["score"]["kind"] == kind
    assert fedfleet.run(table, out=tmp_path / "again").metrics["digest"] == first.metrics["digest"]
    other = fedfleet.run(table, "algorithm.lr=0.02", out=tmp_path / "other")
    # replay, and resume of a finished and of an interrupted run
    assert {"models", "scores", "losses"} <= set(fedfleet.replay(tmp_path / "first")["verified"])
    stop_after_first = pytest.raises(KeyboardInterrupt)
    with stop_after_first:
        fedfleet.run(table, "run.checkpoint_every=1", out=tmp_path / "cut", on_commit=_interrupt)
    resumed = fedfleet.run(tmp_path / "cut/spec.toml", out=tmp_path / "cut", resume=True)
    assert resumed.metrics["digest"] == first.metrics["digest"]
    # compare, explain, report
    assert "algorithm.lr" in fedfleet.compare([first, other]).differs
    assert sum(explain(tmp_path / "first").to_dict()["causes"].values()) == pytest.approx(first.metrics["virtual_seconds"])
    page = fedfleet.report(tmp_path / "first")
    assert first.metrics["score"]["name"] in (tmp_path / "first/report.html").read_text() and page
    # study, tune, predict
    arms = [{"name": "slow", "algorithm": {"lr": 0.01}}, {"name": "fast", "algorithm": {"lr": 0.1}}]
    studied = fedfleet.study({"base": table, "runs": arms, "seeds": 1}, out=tmp_path / "study", workers=1)
    assert studied.failed == 0 and len(studied.rows) == 2
    found = fedfleet.tune(table, space={"algorithm.lr": [0.01, 0.1]}, trials=2, sampler="grid", out=tmp_path / "tune")
    assert len(found.rows) == 2 and found.best
    predicted = fedfleet.predict(table, cache=tmp_path / "cache")
    assert predicted.commits.value == 2.0
    # serve: the model of the simulation, bit for bit
    done, simulated, devices = served(table, tmp_path)
    assert len(devices) == PEOPLE and done.metrics["commits"] == 1
    assert (tmp_path / "served/model.safetensors").read_bytes() == (tmp_path / "simulated/model.safetensors").read_bytes()
    assert done.metrics["accuracy"] == simulated.metrics["accuracy"]


def _interrupt(commit):
    """Ctrl-C after the first model."""
    del commit
    raise KeyboardInterrupt
