"""Columns that nobody named as inputs: all that cannot be inputs are refused together, those that hardly are get a warning."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput, CurableInput
from fedfleet.tasks.user_data.column_checks import holds_dates
from fedfleet.tasks.user_data.columns import text_column
from fedfleet.tasks.user_data.samples import data

ROWS = 80


def raw_table(path, *, gaps=False, count=ROWS):
    """A table as people have it: ids, times, a person, measurements, text labels."""
    lines = ["id,when,person,speed,kind,label"]
    for i in range(count):
        speed = "?" if gaps and i % 10 == 3 else f"{0.1 * (i % 7):.1f}"
        lines.append(f"r{i:04d},2024-01-01 00:{i // 60:02d}:{i % 60:02d},p{i % 4},{speed},{'ab'[i % 2]},{'wr'[i % 2]}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_all_columns_that_are_no_inputs_are_named_at_once_and_the_cure_cures(tmp_path):
    path = raw_table(tmp_path / "t.csv")
    with pytest.raises(CurableInput) as refused:
        data(path, owner="person")
    assert refused.value.cure == {"drop": ["id"], "time": "when"}
    facts = ("2 columns", "'id' is text (80 different", "'when' holds dates", "drop=['id'] and time='when'")
    assert all(fact in str(refused.value) for fact in facts)
    found = data(path, owner="person", **refused.value.cure)
    assert found.inputs == ("speed", "kind=a", "kind=b") and found.time is not None and not found.warnings


def test_missing_values_are_refused_together_with_the_columns(tmp_path):
    path = raw_table(tmp_path / "t.csv", gaps=True)
    with pytest.raises(CurableInput, match=r"then .*8 missing values: 8 in 'speed', the first in line 5") as refused:
        data(path, owner="person")
    assert refused.value.cure == {"drop": ["id"], "time": "when", "missing": "mean"}
    assert len(data(path, owner="person", **refused.value.cure)) == 3
    with pytest.raises(CurableInput) as refused:
        data(path, owner="person", missing="drop")
    assert "missing" not in refused.value.cure


def test_a_cell_that_is_no_number_is_named_with_the_columns_of_text(tmp_path):
    path = raw_table(tmp_path / "t.csv")
    path.write_text(path.read_text().replace("p1,0.1,", "p1,fast,", 1))
    with pytest.raises(CurableInput, match=r"'speed' has 'fast' among its numbers \(.*line 3\)") as refused:
        data(path, owner="person")
    assert refused.value.cure["drop"] == ["id", "speed"]
    with pytest.raises(BadInput, match="line 3, column speed: 'fast' is not a number") as refused:
        data(path, owner="person", drop="id", time="when")
    assert not isinstance(refused.value, CurableInput), "a cell is corrected, not left out with its column"


def test_an_owner_that_nobody_named_is_a_warning(tmp_path):
    path = raw_table(tmp_path / "t.csv")
    (warned,) = data(path, drop="id", time="when").warnings
    assert "'person' seems to say who made each sample" in warned and "owner='person'" in warned and "drop=['person']" in warned
    assert not data(path, drop=["id", "person"], time="when").warnings
    assert not data(path, input=["person", "speed"]).warnings, "whoever names a column knows it"


def test_numbers_of_rows_are_a_warning(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("number,speed,label\n" + "".join(f"{i},{i % 3},{'ab'[i % 2]}\n" for i in range(ROWS)))
    assert any("'number' has another whole number in each of 80 samples" in one for one in data(path).warnings)
    assert not any("'number'" in one for one in data(path, drop="number").warnings)
    path.write_text("number,speed,label\n" + "".join(f"{i},{i % 3},{'ab'[i % 2]}\n" for i in range(20)))
    assert not any("whole number" in one for one in data(path).warnings), "few measurements may well be all different"


def test_dates_that_became_inputs_are_a_warning(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("day,speed,label\n" + "".join(f"2024-01-0{1 + i % 5},{i % 3},{'ab'[i % 2]}\n" for i in range(ROWS)))
    (warned,) = data(path).warnings
    assert "'day' holds dates" in warned and "time='day'" in warned
    assert holds_dates(text_column("a", ["2024-01-31", "2024-01-31T12:30Z"])) and not holds_dates(text_column("a", ["2024", "x-1"]))


@pytest.mark.parametrize("kind", ["text", "numbers"])
def test_measurements_say_hardly_who_made_a_sample(tmp_path, kind):
    rng = np.random.default_rng(0)
    path = tmp_path / "t.csv"
    path.write_text("acc,speed,label\n" + "".join(f"{v:.4f},1,{'ab'[i % 2]}\n" for i, v in enumerate(rng.normal(size=ROWS))))
    source = path if kind == "text" else _table(path)
    with pytest.raises(BadInput, match="'acc' hardly says who made each sample"):
        data(source, owner="acc", label="label")
    path.write_text("acc,speed,label\n" + "".join(f"{0.5 * (i % 4)},1,{'ab'[i % 2]}\n" for i in range(ROWS)))
    assert data(path, owner="acc").owners == ("0.0", "0.5", "1.0", "1.5")


class _Table(dict):
    """Columns in memory, as a table of pandas has them."""

    @property
    def columns(self):
        return list(self)

    def __len__(self):
        return len(next(iter(self.values())))


def _table(path):
    names, *rows = [line.split(",") for line in path.read_text().split()]
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return _Table(acc=np.array(columns["acc"], float), speed=np.array(columns["speed"], float), label=list(columns["label"]))


def test_inputs_and_columns_that_are_left_out_exclude_each_other(tmp_path):
    path = raw_table(tmp_path / "t.csv")
    with pytest.raises(BadInput, match=r"drop=\.\. has nothing to leave out"):
        data(path, input=["speed"], drop=["id"])
    with pytest.raises(BadInput, match=r"drop='idd' is not one of the columns .*did you mean 'id'"):
        data(path, drop="idd")
    with pytest.raises(BadInput, match="cannot be both drop and label"):
        data(path, drop="label", label="label")


def test_the_owner_is_proposed_where_another_word_was_typed(tmp_path):
    with pytest.raises(BadInput) as refused:
        data(raw_table(tmp_path / "t.csv"), owner="user")
    assert str(refused.value).endswith("; did you mean 'person'?") and str(refused.value).count("speed") == 1, "columns once"
