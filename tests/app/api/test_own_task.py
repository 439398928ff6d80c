"""A task named by the places of its data and model becomes keys of the spec."""

import numpy as np
import pytest

import fedfleet
from fedfleet.app.api.own_task import Columns, names_task, read_user_data, refuse_columns, take_task
from fedfleet.core.errors import BadInput
from fedfleet.tasks.trusted_code import trusted_source
from tests.app.own_files import write_data, write_model


def test_places_name_a_task_and_objects_do_not():
    assert names_task(None, "my.csv") and names_task("m.py:Net", None) and names_task("mlp", "my.csv")
    assert not names_task(None, None) and not names_task(object(), "my.csv") and not names_task(None, (1, 2))


def test_data_of_owners_are_dealt_by_owner_unless_the_spec_deals_them(tmp_path):
    path, columns = write_data(tmp_path, "classification")
    table, name = take_task(None, ["stop.rounds=3"], None, str(path), Columns(**columns))
    assert name == "classification" and table["world"]["data"] == {"use": "by_owner"} and table["stop"] == {"rounds": 3}
    table, _ = take_task({"world": {"data": "iid"}}, [], None, str(path), Columns(**columns))
    assert table["world"]["data"] == "iid"
    table, _ = take_task(None, [], None, str(path), Columns(label="activity"))
    assert "data" not in table.get("world", {})


def test_words_change_how_data_are_read_and_replace_the_task_of_the_spec(tmp_path):
    path, columns = write_data(tmp_path, "classification")
    spec = {"task": {"use": "digits_mlp", "hidden": 9}}
    table, _ = take_task(spec, ["task.scale=none", "task.input=['a','b']"], None, str(path), Columns(**columns))
    assert table["task"]["use"] == "table" and table["task"]["scale"] == "none" and "hidden" not in table["task"]
    table, _ = take_task("stop.rounds=2", ["pace.cohort=2"], None, str(path), Columns(**columns))
    assert table["stop"]["rounds"] == 2 and table["pace"]["cohort"] == 2


def test_code_that_is_named_is_trusted_from_then_on(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path, columns = write_data(tmp_path, "classification")
    table, _ = take_task(None, [], f"{write_model(tmp_path)}:Net", str(path), Columns(**columns))
    assert trusted_source(table["task"]["code"]) is not None


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ((None, [], None, None), "data"),
        (({}, [], "model.py:Net", None), "task.path"),
        (({}, [], None, None, Columns(label="a")), "label"),
    ],
)
def test_what_is_missing_is_named(given, facts):
    with pytest.raises(BadInput) as refused:
        take_task(*given)
    assert facts in str(refused.value)


def test_columns_read_objects_too(tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 3))
    assert read_user_data((x, np.arange(20) % 4), Columns(kind="regression")).kind.name == "regression"
    with pytest.raises(BadInput, match="arrays have none"):
        read_user_data((x, np.arange(20)), Columns(label="a"))
    path, columns = write_data(tmp_path, "multilabel")
    assert read_user_data(str(path), Columns(**columns)).labels == ("warm", "loud")
    refuse_columns(Columns(), None)


@pytest.mark.filterwarnings("ignore")
def test_a_call_takes_a_path_and_the_same_run_comes_from_the_spec(tmp_path):
    path, columns = write_data(tmp_path, "classification")
    words = ("stop.rounds=2", "pace.cohort=2", "run.execute=inline")
    first = fedfleet.run(None, *words, data=str(path), **columns)
    task = {"use": "table", "path": str(path), **columns}
    assert fedfleet.run({"task": task, "world": {"data": "by_owner"}}, *words).metrics["digest"] == first.metrics["digest"]


RAW = """id,when,person,speed,label
""" + "".join(f"r{i:03d},2024-01-01 00:00:{i % 60:02d},p{i % 4},{0.1 * (i % 7):.1f},{'wr'[i % 2]}\n" for i in range(120))


@pytest.mark.slow
def test_a_raw_table_is_refused_once_with_the_whole_command(fedfleet, tmp_path, monkeypatch):
    file = tmp_path / "raw.csv"
    file.write_text(RAW)
    words = ["run", "stop.rounds=1", "--data", str(file), "--label", "label", "--owner", "person", "--check"]
    monkeypatch.setattr("sys.argv", ["fedfleet", *words])
    code, _, said = fedfleet(*words)
    whole = f"the whole command: fedfleet {' '.join(words)} --drop id --time when"
    assert code == 2 and "--drop id and --time when" in said and said.strip().endswith(whole) and "task." not in said
    code, said, _ = fedfleet(*words, "--drop", "id", "--time", "when")
    assert code == 0 and said.startswith(f"{file} is valid"), "the data are named, not the override"


@pytest.mark.slow
def test_columns_of_one_option_are_separated_by_commas(fedfleet, tmp_path):
    file = tmp_path / "raw.csv"
    file.write_text(RAW)
    words = ["run", "world.clients=4", "--data", file, "--label", "label", "--check"]
    code, _, said = fedfleet(*words, "--drop", "id,person", "--time", "when")
    assert code == 0 and "who made each sample" not in said
    assert fedfleet(*words, "--input", "speed")[0] == 0
    code, _, said = fedfleet(*words, "--drop", "id", "--time", "when")
    assert code == 0 and said.count("--owner person") == 1 and "task.owner" not in said, "in the words of options"
    assert "--kind" in fedfleet(*words, "--kind", "regression", "--input", "speed")[2]


def test_columns_become_keys_of_the_task(tmp_path):
    file = tmp_path / "raw.csv"
    file.write_text(RAW)
    table, _ = take_task(None, [], None, str(file), Columns(label="label", owner="person", drop=["id"], time="when"))
    assert (table["task"]["drop"], table["task"]["time"]) == ("id", "when") and "input" not in table["task"]
    assert read_user_data(str(file), Columns(label="label", input=["speed"])).inputs == ("speed",)
    with pytest.raises(BadInput, match="drop says how to read data"):
        refuse_columns(Columns(drop="id"), None)
