"""The task of a person's own data: pinned by content, scaled without the test set, tested at random, by owner or by time."""

import numpy as np
import pytest

from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.kinds import CLASSIFICATION, NEXT_TOKEN, REGRESSION
from fedfleet.core.registry import builder
from fedfleet.tasks.table import default_model, held_out, read_samples, scaled, source_of, table
from fedfleet.tasks.trusted_code import trust
from fedfleet.tasks.user_data.samples import data
from tests.app.own_files import KINDS, write_data, write_model


def table_of(folder, kind="classification", **keys):
    path, columns = write_data(folder, kind)
    return {"use": "table", "path": str(path), **columns, **keys}


def task_of(folder, kind="classification", seed=0, **keys):
    table = resolve({"task": table_of(folder, kind, **keys)}).task
    return builder("tasks", "table")(**{k: v for k, v in table.items() if k != "use"})(seed)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gets_a_model_that_fits_it(kind, tmp_path):
    task = task_of(tmp_path, kind)
    assert task.dataset.kind.name == kind and len(task.holdout)
    module = task.build()
    assert {n: v.shape for n, v in task.init(0).items()} == {n: tuple(v.shape) for n, v in module.state_dict().items()}


def test_a_spec_names_the_content_and_not_the_place(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = (resolve({"task": table_of(tmp_path / name)}) for name in "ab")
    assert first.task["path"] != second.task["path"] and first.task["content"] == second.task["content"]
    assert first.digest == second.digest
    other = resolve({"task": {**table_of(tmp_path / "a"), "hidden": 8}})
    assert other.digest != first.digest


def test_data_that_changed_or_went_are_refused_when_they_are_read_and_not_before(tmp_path):
    spec = resolve({"task": table_of(tmp_path)})
    path = tmp_path / "classification.csv"
    path.write_text(path.read_text() + "p0,0,0,0,walk\n")
    again = resolve(spec.table())  # a report of the run needs no data
    assert again.digest == spec.digest
    with pytest.raises(BadInput, match="has changed"):
        read_samples(source_of(again.task))
    path.unlink()
    with pytest.raises(BadInput, match=r"task\.path"):
        read_samples(source_of(again.task))


def test_a_misspelt_file_or_model_names_the_right_one(tmp_path):
    table = table_of(tmp_path)
    with pytest.raises(BadInput, match=r"did you mean .*classification\.csv"):
        resolve({"task": {**table, "path": str(tmp_path / "clasification.csv")}})
    with pytest.raises(BadInput, match="did you mean 'mlp'"):
        task_of(tmp_path, model="mpl")
    (tmp_path / "holes.csv").write_text("a,label\n1,x\n?,y\n3,x\n")
    with pytest.raises(BadInput, match=r"task\.missing"):
        read_samples(source_of(resolve({"task": {"use": "table", "path": str(tmp_path / "holes.csv")}}).task))


def test_the_scale_is_that_of_the_clients_samples(tmp_path):
    task = task_of(tmp_path)
    rows = task.client_rows()
    assert np.allclose(task.dataset.x[rows].mean(0), 0, atol=1e-6) and np.allclose(task.dataset.x[rows].std(0), 1, atol=1e-5)
    assert not np.allclose(task.dataset.x.mean(0), 0, atol=1e-6)
    assert task.dataset.input_names == ("a", "b", "c")
    plain = task_of(tmp_path, scale="none").dataset.x
    assert plain.dtype == np.float32 and plain[:, 2].std() > 100


def test_numbers_to_predict_are_scaled_too_and_measured_in_their_own_unit(tmp_path):
    data = task_of(tmp_path, "regression").dataset
    (height, spread), _ = data.target_scale
    assert 165 < height < 175 and 2 < spread < 8 and abs(data.y.mean()) < 0.2
    tokens = task_of(tmp_path, "next_token").dataset
    assert tokens.x.dtype == np.int64
    with pytest.raises(BadInput, match="tokens"):
        scaled(tokens, np.arange(3), "standard")


def test_the_test_set_is_random_of_some_owners_or_the_latest(tmp_path):
    random, owners = task_of(tmp_path), task_of(tmp_path, test="owner")
    assert abs(len(random.holdout) / len(random.dataset.y) - 0.2) < 0.02
    tested = set(owners.dataset.owner[owners.holdout].tolist())
    assert len(tested) == 1 and not tested & set(owners.dataset.owner[owners.client_rows()].tolist())
    data, when = random.dataset, np.arange(len(random.dataset.y))[::-1].astype(float)
    rows = held_out(data, 0, "time", when)
    for owner in np.unique(data.owner):
        mine = data.owner == owner
        tested = np.isin(np.arange(len(data.y)), rows) & mine
        assert abs(tested.sum() / mine.sum() - 0.2) < 0.03
        assert when[tested].min() > when[mine & ~tested].max()
    with pytest.raises(BadInput, match=r"task\.time"):
        held_out(data, 0, "time", None)


def test_own_code_is_pinned_and_its_model_is_trained(tmp_path):
    path = write_model(tmp_path)
    digest = trust(path.read_text())
    table = resolve({"task": table_of(tmp_path, model=f"{path}:Net")}).task
    assert table["code"] == digest
    assert sorted(task_of(tmp_path, model=f"{path}:Net").init(0)) == ["first.bias", "first.weight", "last.bias", "last.weight"]
    with pytest.raises(BadInput, match="does not fit next_token"):
        task_of(tmp_path, "next_token", model="mlp").build()


def test_models_that_ship_go_by_the_samples():
    assert default_model((3, 32, 32), CLASSIFICATION) == "cnn"
    assert default_model((3, 200), REGRESSION) == "mlp"
    assert default_model((32,), NEXT_TOKEN) == "gpt"


def test_a_regression_beyond_doubt_is_no_warning_of_a_run(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("a,kcal\n" + "".join(f"{i % 5},{i + 0.5}\n" for i in range(60)))
    assert data(path).warnings and table(path=str(path))(0).warnings == ()
    path = tmp_path / "whole.csv"
    path.write_text("a,kcal\n" + "".join(f"{i % 5},{2 * i}\n" for i in range(1200)))
    (warned,) = table(path=str(path))(0).warnings
    assert "1,200 different whole numbers" in warned and 'task.kind = "classification"' in warned
