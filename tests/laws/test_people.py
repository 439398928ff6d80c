"""Data that are dealt by owner have as many clients as people, whoever asks: each verb, the form of the dashboard, and devices."""

import json
import tomllib

import numpy as np
import pytest
import torch

import fedfleet
from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.client_config import client_config_for
from fedfleet.app.dashboard.new_run_form import check_form, fill_form
from fedfleet.app.spec import Spec, load_spec, resolve
from fedfleet.app.studies.predict.reference_runs import ideal_spec

PEOPLE = 9
TASK = {"use": "phone_watch_cnn", "synthetic": True, "samples": 460, "hidden": 4}
NAMED = {"task": TASK, "world": {"data": "by_owner"}, "pace": {"cohort": 4}, "stop": {"rounds": 1}}
OWN = {"world": {"data": "by_owner"}, "pace": {"cohort": 4}, "stop": {"rounds": 2}}
MANY = {"use": "by_owner", "split_owners": True}
FEW = {"use": "by_owner", "merge_owners": True}


def own_data():
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    x = rng.normal(size=(270, 4)).astype(np.float32)
    return {"model": torch.nn.Linear(4, 2), "data": (x, (x[:, 0] > 0).astype(int), np.arange(270) % PEOPLE)}


def clients_of(folder):
    return tomllib.loads((folder / "spec.toml").read_text())["world"]["clients"]


def test_a_run_a_study_and_a_search_of_own_data(tmp_path):
    run = fedfleet.run(OWN, **own_data(), out=tmp_path / "run")
    assert clients_of(run.out) == PEOPLE == len(run.clients["picked"])
    assert "9 people as 9 clients" in (run.out / "report.html").read_text()
    arms = [{"name": "a", "algorithm": {"lr": 0.1}}, {"name": "b", "world": {"data": FEW, "clients": 5}}]
    fedfleet.study({"base": OWN, "seeds": 2, "baseline": "a", "runs": arms}, **own_data(), out=tmp_path / "study")
    found = sorted(clients_of(one.parent) for one in (tmp_path / "study").rglob("spec.toml") if (one.parent / "run.db").is_file())
    assert found == [5, 5, PEOPLE, PEOPLE]
    search = {**OWN, "tune": {"trials": 1, "space": {"algorithm.lr": [0.1]}}}
    fedfleet.tune(search, **own_data(), out=tmp_path / "search")
    assert tomllib.loads((tmp_path / "search/best.toml").read_text())["world"]["clients"] == PEOPLE


def test_predictions_and_measures(tmp_path):
    measured = fedfleet.measure({**NAMED, "pace": {"use": "deadline", "cohort": 4, "seconds": 9.0}}, seeds=1)
    assert measured.to_dict()["under"]["clients"] == 23
    predicted = fedfleet.predict(NAMED, cache=tmp_path)
    assert predicted.commits.value == 1.0


@pytest.mark.parametrize(("clients", "key"), [(500, "split_owners"), (5, "merge_owners"), (100, "split_owners")])
def test_another_number_is_refused_everywhere(clients, key):
    says = rf"world\.clients = {clients}: by_owner .*{key} = true"
    wrong = {**OWN, "world": {"data": "by_owner", "clients": clients, "min_samples": 1}}
    for verb in (fedfleet.run, fedfleet.predict, fedfleet.measure):
        with pytest.raises(fedfleet.BadInput, match=says):
            verb(wrong, **own_data())


def test_the_form_knows_the_number_and_keeps_one_that_was_typed(tmp_path):
    values = {
        "name": "a",
        "world.data.use": "by_owner",
        "task.use": "phone_watch_cnn",
        "task.synthetic": "true",
        "task.samples": "460",
    }
    found = check_form(values, tmp_path, tmp_path)
    assert found.spec is not None and found.spec.world["clients"] == 23
    typed = check_form({**values, "world.clients": "100", "world.data.split_owners": "true"}, tmp_path, tmp_path)
    assert typed.spec is not None and typed.spec.world["clients"] == 100
    again = check_form(fill_form(typed.spec.table(), "b"), tmp_path, tmp_path)
    assert again.spec is not None and again.spec.digest == typed.spec.digest


def test_devices_of_a_rehearsal_are_people():
    setup = assemble(resolve(NAMED))
    owner = setup.task.dataset.owner
    for client in range(23):
        shard = json.loads(client_config_for(setup, client))["data"]
        assert len(np.unique(owner[shard["train"] + shard["test"]])) == 1


def test_a_prediction_without_users_may_have_other_clients_than_people():
    users = {"use": "households", "devices": [2, 3]}
    spec = resolve({**NAMED, "world": {"data": "by_owner", "users": users, "min_samples": 1}})
    ideal = ideal_spec(spec, 4, 1)
    assert ideal.world["clients"] == spec.world["clients"] > 23
    assert assemble(ideal).plan.clients == spec.world["clients"]


def test_a_run_of_an_older_version_loads_replays_and_resumes(tmp_path, monkeypatch):
    """Its folder has more clients than people, and nothing that permits it."""
    toml, out, spec = Spec.toml, tmp_path / "old", {**OWN, "world": {"data": MANY, "clients": 30, "min_samples": 1}}

    def older(self):
        return "".join(line for line in toml(self).splitlines(True) if "_owners" not in line)

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Spec, "toml", older)
    with pytest.raises(KeyboardInterrupt):
        fedfleet.run(spec, **own_data(), out=out, on_commit=interrupt)
    monkeypatch.undo()
    assert "_owners" not in (out / "spec.toml").read_text()
    made = fedfleet.run(out / "spec.toml", **own_data(), out=out, resume=True)
    assert made.metrics["spec_digest"] == load_spec(out / "spec.toml").digest
    assert made.metrics["digest"] == fedfleet.run(spec, **own_data()).metrics["digest"] == fedfleet.load(out).metrics["digest"]
    assert fedfleet.replay(out, **own_data())["ok"]
    assert "9 people split into 30 clients" in (out / "report.html").read_text()
