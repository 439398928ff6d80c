"""The model of a run as an ONNX file, and an ONNX file as the model of a run: in Python, on the command line, on devices."""

import json

import numpy as np
import pytest

import fedfleet
from fedfleet.app.api.audit import export
from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.client_config import client_config_for
from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.network.device.client_runtime import Assignment, train_task
from fedfleet.network.protocol.frames import offer_to_bytes

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.slow

SHORT = {"world": {"clients": 4}, "pace": {"cohort": 2}, "stop": {"rounds": 2}}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A table, a run on it, and the file with the run's model."""
    folder, rng = tmp_path_factory.mktemp("onnx"), np.random.default_rng(1)
    x = rng.normal(size=(300, 3)) * [1, 3, 9] + 2
    rows = [f"{a},{b},{c},{'up' if a + b > 4 else 'down'}" for a, b, c in x]
    (folder / "own.csv").write_text("\n".join(["a,b,c,label", *rows]) + "\n")
    fedfleet.run(SHORT, data=folder / "own.csv", label="label", out=folder / "run")
    export(folder / "run", onnx=folder / "net.onnx")
    return folder


def test_the_file_computes_what_the_run_trained_and_says_what_it_reads(place):
    model = onnx.load(place / "net.onnx")
    notes = {p.key: json.loads(p.value) for p in model.metadata_props}
    assert notes["fedfleet.inputs"] == ["a", "b", "c"] and notes["fedfleet.labels"] == ["down", "up"]
    mean, deviation = (np.array(v) for v in notes["fedfleet.input_mean_and_deviation"])
    rows = np.array([[3.0, 8.0, 2.0], [1.0, -5.0, 2.0]])
    session = onnxruntime.InferenceSession((place / "net.onnx").read_bytes())
    (outputs,) = session.run(None, {"input": ((rows - mean) / deviation).astype(np.float32)})
    assert outputs.argmax(1).tolist() == [1, 0]


def test_a_run_begins_with_the_weights_of_the_file_and_is_pinned_to_it(place, tmp_path):
    own = {"data": place / "own.csv", "label": "label"}
    result = fedfleet.run(SHORT, **own, model=str(place / "net.onnx"), out=tmp_path / "second")
    first = json.loads((place / "run/metrics.json").read_text())
    assert result.metrics["first_weights"] == "file" and result.metrics["accuracy"] >= first["accuracy"] - 0.02
    assert {"models", "scores"} <= set(fedfleet.replay(tmp_path / "second")["verified"])
    (tmp_path / "net.onnx").write_bytes((place / "net.onnx").read_bytes())
    spec = {
        **SHORT,
        "task": {"use": "table", "path": str(place / "own.csv"), "label": "label", "model": str(tmp_path / "net.onnx")},
    }
    table = resolve(spec).toml()
    (tmp_path / "net.onnx").write_bytes((place / "net.onnx").read_bytes() + b" ")
    (tmp_path / "spec.toml").write_text(table)
    with pytest.raises(BadInput, match=r"net\.onnx has changed since this run was described"):
        fedfleet.run(tmp_path / "spec.toml")


def test_samples_of_another_shape_are_named(place):
    with pytest.raises(BadInput, match=r"net\.onnx takes samples of shape \(3,\), and those here have \(2,\)"):
        fedfleet.run(SHORT, data=place / "own.csv", label="label", input=["a", "b"], model=str(place / "net.onnx"))


@pytest.mark.parametrize("engine", ["torch", "numpy"])
def test_devices_get_it_as_data_and_trust_no_code(engine, place, tmp_path):
    task = {"use": "table", "path": str(place / "own.csv"), "label": "label", "model": str(place / "net.onnx")}
    setup = assemble(resolve({**SHORT, "task": task}))
    config = client_config_for(setup, 0, brings_own=True)
    assert b"net.onnx" not in config
    offer = offer_to_bytes(setup.plan.algorithm.offer(setup.plan.algorithm.init(setup.plan.params), 0, {}))
    runtime = build_client_runtime(config, place / "own.csv", engine=engine)
    assert train_task(runtime, Assignment(5), offer, {}).weight > 0


def test_an_export_that_writes_nothing_is_refused(place):
    with pytest.raises(BadInput, match="nothing to write: give to TOOL:WHERE, onnx FILE, or both"):
        export(place / "run")
