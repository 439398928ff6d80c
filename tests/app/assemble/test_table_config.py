"""A person's own task in a client's configuration: what travels, what runs, and what a device reads."""

import json

import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.client_config import client_config_for
from fedfleet.app.assemble.device_runtime import build_client_runtime, check_own_samples
from fedfleet.app.assemble.table_config import found_data
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.trees import content_hash
from fedfleet.tasks.trusted_code import forget, trust, trusted_source
from tests.app.own_files import PEOPLE, write_data, write_model


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def setup_of(folder, model=None, kind="classification"):
    path, columns = write_data(folder, kind)
    own = {} if model is None else {"model": f"{write_model(folder)}:{model}", "code": trust(write_model(folder).read_text())}
    return assemble(resolve({"task": {"use": "table", "path": str(path), **columns, **own}, "world": {"data": "by_owner"}}))


def changed(config, **keys):
    return json.dumps({**json.loads(config), **keys}).encode()


def test_a_rehearsal_trains_the_clients_part_of_the_run(tmp_path):
    setup = setup_of(tmp_path)
    runtime = build_client_runtime(client_config_for(setup, 1, local=True))
    assert runtime.train.tolist() == setup.world.data.shard(1, "train", 0).tolist()
    assert content_hash(runtime.params) == content_hash(setup.plan.params)
    assert content_hash({"x": runtime.task.dataset.x}) == content_hash({"x": setup.task.dataset.x})


def test_the_servers_places_stay_with_the_server(tmp_path, monkeypatch):
    config = client_config_for(setup_of(tmp_path, "Net"), 0)
    assert str(tmp_path) not in config.decode()
    monkeypatch.chdir(tmp_path)  # the device has a copy of the file
    assert len(build_client_runtime(config).train)
    monkeypatch.chdir(tmp_path / "state")
    with pytest.raises(BadInput, match="is not on this machine"):
        found_data("classification.csv")


def test_a_device_reads_no_file_but_the_one_that_the_server_has(tmp_path):
    config = json.loads(client_config_for(setup_of(tmp_path), 0, local=True))
    private = tmp_path / "private.csv"
    private.write_text("a,b,c,activity,user\n" + "1,2,3,walk,me\n" * 9)
    with pytest.raises(BadInput, match="has changed"):
        build_client_runtime(changed(json.dumps(config), task={**config["task"], "path": str(private)}))
    with pytest.raises(Refused, match="without its hash"):
        build_client_runtime(changed(json.dumps(config), task={**config["task"], "path": str(private), "content": ""}))


def test_layers_of_pytorch_travel_as_data_and_train_the_same_model(tmp_path):
    setup = setup_of(tmp_path, "layers")
    config = client_config_for(setup, 0, local=True)
    assert "layers" in json.loads(config)["model"] and b"import torch" not in config
    forget(setup.spec.task["code"])
    assert content_hash(build_client_runtime(config).params) == content_hash(setup.plan.params)


def test_other_code_is_kept_for_reading_and_runs_once_its_hash_is_given(tmp_path):
    setup = setup_of(tmp_path, "Net")
    config, digest = client_config_for(setup, 0, local=True), setup.spec.task["code"]
    forget(digest)
    with pytest.raises(BadInput) as refused:
        build_client_runtime(config)
    kept = tmp_path / "state/fedfleet/received" / f"{digest}.py"
    assert str(kept) in str(refused.value) and f"--trust-code {digest}" in str(refused.value) and kept.is_file()
    with pytest.raises(BadInput, match="--trust-code"):
        build_client_runtime(config, trusted="0" * 64)
    assert trusted_source(digest) is None
    assert content_hash(build_client_runtime(config, trusted=digest).params) == content_hash(setup.plan.params)
    assert trusted_source(digest) is not None


@pytest.mark.parametrize(
    "model", [{"source": "a" * (1 << 21), "name": "Net"}, {"source": "x = 1", "name": "a b"}, "Net", {"layers": {"use": "os"}}]
)
def test_a_model_in_another_form_is_refused(model, tmp_path):
    config = client_config_for(setup_of(tmp_path), 0, local=True)
    with pytest.raises((BadInput, Refused)):
        build_client_runtime(changed(config, model=model))


@pytest.mark.parametrize("kind", ["classification", "regression", "multilabel"])
def test_samples_of_a_device_get_the_numbers_and_the_scale_of_the_run(kind, tmp_path):
    setup = setup_of(tmp_path, kind=kind)
    (tmp_path / "device").mkdir()
    own, _ = write_data(tmp_path / "device", kind, people=1, each=30, seed=3)
    runtime = build_client_runtime(client_config_for(setup, 0, brings_own=True), own)
    data = runtime.task.dataset
    assert len(data.y) == 30 and data.x.shape[1:] == setup.task.dataset.x.shape[1:] and data.y.dtype == setup.task.dataset.y.dtype
    assert abs(data.x).max() < 8 and data.label_names == setup.task.dataset.label_names
    assert sorted([*runtime.train, *runtime.test]) == list(range(30)) and len(setup.world.keys) == PEOPLE


def test_samples_of_a_device_are_checked_without_a_model_and_without_trusted_code(tmp_path):
    setup = setup_of(tmp_path, "Net")
    config, shard = client_config_for(setup, 0, brings_own=True), client_config_for(setup, 0)
    forget(setup.spec.task["code"])
    mine = tmp_path / "device1.csv"
    lines = (tmp_path / "classification.csv").read_text().splitlines()
    mine.write_text("\n".join(lines[:40]))
    check_own_samples(config, mine)
    at = lines[0].split(",").index("a")
    cells = [line.split(",") for line in lines[:40]]
    mine.write_text("\n".join(",".join(row[:at] + row[at + 1 :]) for row in cells))
    with pytest.raises(BadInput, match=r"--data: .*device1\.csv has no column 'a', which this run's model reads"):
        check_own_samples(config, mine)
    check_own_samples(shard, mine)  # a shard of the server's: there is nothing to check
    with pytest.raises(Refused):
        check_own_samples(b"{}", mine)
