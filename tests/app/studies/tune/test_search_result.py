"""What a search says of itself follows from its trials."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.studies.tune.search_result import Row, Tuned, collect_result, read_search_result, result_text, savings
from fedfleet.app.studies.tune.search_store import open_study, suggest_value
from fedfleet.core.errors import BadInput
from tests.app.studies.tune.searches import searched

SPACE = {"algorithm.lr": {"low": 0.01, "high": 1.0, "log": True}, "algorithm.batch": [8, 16]}


def row(trial, state="finished", value=None, rounds=40, early=None, **more):
    values = {"algorithm.lr": 0.1 + trial / 10, "algorithm.batch": 8 if trial % 2 else 16}
    return Row(trial, state, values, value, early, rounds, "too little" if state != "finished" else "", **more)


def made(out, rows=None, **changes):
    """A search of four trials: the spec's own, a better one, one stopped early, one that failed."""
    rows = rows or [
        row(0, value=0.8, default=True), row(1, value=0.9), row(2, "pruned", rounds=10, early=0.2), row(3, "failed", rounds=0)
    ]  # fmt: skip
    result = Tuned(
        "tiny", "accuracy", False, (3,), "tpe", "median", SPACE, rows, 1, 0.8, 90, 0.25,
        {"algorithm.lr": 0.7, "algorithm.batch": 0.3}, out, ("the best of four is in part luck",),
    )  # fmt: skip
    return replace(result, **changes)


def test_a_search_reads_back_from_its_folder(tmp_path):
    result = made(tmp_path)
    (tmp_path / "tune.json").write_text(result.text())
    assert read_search_result(tmp_path) == result
    (tmp_path / "tune.json").write_text("{}")
    with pytest.raises(BadInput, match="run the search again"):
        read_search_result(tmp_path)


def test_the_answer_in_words(tmp_path):
    said = result_text(made(tmp_path))
    assert "best: algorithm.lr = 0.2, algorithm.batch = 8" in said
    assert "90.0 %, 10.0 points better than the spec as it stands (80.0 %)" in said
    assert "4 trials: 2 finished, 1 stopped early, 1 failed; 90 rounds, 25 % saved" in said
    assert "trial 3 failed: too little" in said
    assert "best of 2 finished trials on one seed is in part luck" in said and "5 other seeds" in said
    assert "what mattered among the trials that finished: algorithm.lr 70 %" in said, "of those stopped early nobody knows"
    assert "no trial was better than the spec" in result_text(made(tmp_path, place=0))
    assert result_text(made(tmp_path, place=None)).startswith("none of 4 trials ended: too little")


def test_the_answer_for_programs(tmp_path):
    result = made(tmp_path).answer()
    assert result["best"] == {"algorithm.lr": 0.2, "algorithm.batch": 8} and result["value"] == 0.9
    assert (result["trials"], result["pruned"], result["failed"], result["default_value"]) == (4, 1, 1, 0.8)


@given(st.lists(st.integers(1, 40), max_size=8), st.integers(0, 6))
def test_what_is_saved_is_what_the_stopped_trials_did_not_run(stopped, ended):
    rows = [row(i, value=0.5) for i in range(ended)] + [row(i, "pruned", rounds=n) for i, n in enumerate(stopped)]
    done, share = savings(rows)
    assert done == 40 * ended + sum(stopped)
    whole = 40 * len(rows)
    assert share == pytest.approx(1 - done / whole if ended else 0.0)


@pytest.mark.soak
def test_the_key_that_decides_matters_most(tmp_path):
    search = searched()
    study = open_study(tmp_path, search)
    for _ in range(12):
        trial = study.ask()
        lr, batch = (suggest_value(trial, axis) for axis in search.space)
        trial.set_user_attr("value", lr + batch / 1e4)
        study.tell(trial, lr + batch / 1e4)
    result = collect_result(study, search, tmp_path)
    assert next(iter(result.importance)) == "algorithm.lr" and result.importance["algorithm.lr"] > 0.9
    assert sum(result.importance.values()) == pytest.approx(1.0)


def test_an_endless_value_is_a_word_in_json(tmp_path):
    row = Row(0, "finished", {"pace.seconds": math.inf}, 0.5, None, 3, "")
    space = {"pace.seconds": [60.0, math.inf]}
    result = Tuned("t", "accuracy", False, (0,), "grid", "none", space, [row], 0, 0.5, 3, 0.0, {}, tmp_path)
    for text in (result.text(), json.dumps(result.answer())):
        json.loads(text, parse_constant=lambda odd: pytest.fail(f"{odd} is no JSON"))
    (tmp_path / "tune.json").write_text(result.text())
    assert read_search_result(tmp_path).rows[0].values["pace.seconds"] == "inf"


def test_where_nobody_got_there_nobody_is_called_the_best(tmp_path):
    row = Row(0, "finished", {"algorithm.lr": 0.1}, None, None, 3, "", default=True)
    result = Tuned("t", "time_to.0.95", True, (0,), "tpe", "none", {}, [row], 0, None, 3, 0.0, {}, tmp_path)
    assert result_text(result).startswith("no trial got there; the first: algorithm.lr = 0.1")
