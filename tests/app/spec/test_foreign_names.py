"""What settings are called elsewhere: every name leads to a key that a spec has."""

import pytest

from fedfleet.app.spec import apply_overrides, resolve
from fedfleet.app.spec.foreign_names import _BY_NAME, key_for, where_listed
from fedfleet.app.spec.key_places import dotted_key

VALUES = {
    "algorithm.use": "fedavg", "choose.use": "uniform", "world.data.use": "iid", "task.use": "digits_logreg", "run.device": "cuda",
    "algorithm.optimiser": "adam", "stop.target_accuracy": "0.5", "algorithm.momentum": "0.9", "algorithm.weight_decay": "0.1",
    "algorithm.lr": "0.1", "pace.seconds": "60.0", "world.data.alpha": "0.5",
}  # fmt: skip
WITH = {"pace.seconds": ["pace.use=deadline"], "world.data.alpha": ["world.data.use=dirichlet"]}


@pytest.mark.parametrize("setting", sorted({*_BY_NAME.values()}))
def test_every_key_exists(setting):
    key = setting.partition("=")[0]
    word = setting.format(VALUES.get(key, "7")).replace("NUMBER", "7")
    resolve(apply_overrides({"world": {"clients": 40}}, [*WITH.get(key, []), word]))


def test_a_name_of_ours_is_no_foreign_one():
    ours = [name for name in _BY_NAME if dotted_key(name) == _BY_NAME[name].partition("=")[0]]
    assert ours == [], "a key that says the same already"


def test_spelling_does_not_matter():
    assert key_for("Batch-Size", "8") == key_for("batch_size", "8") == "algorithm.batch=8"
    assert where_listed("choose.use=x") == "fedfleet list selectors" and where_listed("seed=3") == ""
