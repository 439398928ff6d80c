"""Tables of several clients, one below the other: columns of text are joined by their names."""

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.user_data.columns import Column, coded_column, column_of, text_column
from fedfleet.tasks.user_data.raw_samples import MOST_VALUES, as_names, time_column
from fedfleet.tasks.user_data.samples import data
from fedfleet.tasks.user_data.tabular_files import READERS, joined_column, read_table_file


def cells_of(column):
    return [None if i < 0 else column.names[i] for i in column.values.tolist()]


def test_text_is_joined_by_name():
    joined = joined_column([text_column("c", ["b", "a"]), text_column("c", ["c", "?", "a"])])
    assert joined.names == ("a", "b", "c") and cells_of(joined) == ["b", "a", "c", None, "a"]
    mixed = joined_column([column_of("c", [1.0, None]), text_column("c", ["x"])])
    assert cells_of(mixed) == ["1", None, "x"]
    assert joined_column([column_of("c", [1.0]), column_of("c", [2])]).values.tolist() == [1, 2]
    fixed = joined_column([Column("c", column_of("c", [1]).values.astype(int), ("z", "a"), fixed=True)] * 2)
    assert fixed.names == ("z", "a") and fixed.fixed


def test_a_mistake_names_the_file_of_the_client(tmp_path):
    (tmp_path / "ann.csv").write_text("a,label\n1,w\n2,r\n")
    (tmp_path / "bob.csv").write_text("a,label\n\n1,w\nfast,r\n3,r\n")
    with pytest.raises(BadInput, match=r"bob\.csv: line 4, column a: 'fast' is not a number"):
        data(tmp_path)
    (tmp_path / "bob.csv").write_text("a,label\n1,w\n,r\n")
    with pytest.raises(BadInput, match=r"1 missing value: 1 in 'a', the first in .*bob\.csv: line 3"):
        data(tmp_path)
    assert data(tmp_path, missing="drop").owner.tolist() == [0, 0, 1]


def test_a_client_without_a_class_changes_no_numbers(tmp_path):
    (tmp_path / "ann.csv").write_text("a,kind,label\n1,car,w\n2,car,w\n")
    (tmp_path / "bob.csv").write_text("a,kind,label\n1,bus,r\n2,car,w\n")
    found = data(tmp_path)
    assert found.labels == ("r", "w") and found.y.tolist() == [1, 1, 0, 1]
    assert found.inputs == ("a", "kind=bus", "kind=car") and found.x[:, 1].tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("suffix", sorted(READERS))
def test_every_reader_refuses_what_is_not_its_own(tmp_path, suffix):
    (tmp_path / f"t{suffix}").write_bytes(b"\x00\x01\x02")
    with pytest.raises(BadInput, match=f"t{suffix}"):
        read_table_file(tmp_path / f"t{suffix}")


def test_columns_with_the_names_of_clients_and_the_times_of_samples():
    assert cells_of(as_names(column_of("c", [10, 9, None, 9]))) == ["10", "9", None, "9"]
    assert as_names(column_of("c", [10, 9])).names == ("9", "10")
    dates = text_column("t", ["1970-01-02", "1970-01-01T00:00:01.5Z", "NA"])
    assert time_column(dates, str).values[:2].tolist() == [86400, 1.5]
    with pytest.raises(BadInput, match="line 0, column t: 'noon' is neither a number nor a date"):
        time_column(text_column("t", ["noon"]), lambda row: f"line {row}")
    assert coded_column("c", column_of("c", [1, 0]).values.astype(int), ["b", "a"]).names == ("a", "b")


def test_text_with_many_values_is_no_input(tmp_path):
    rows = "".join(f"{i},v{i % (MOST_VALUES + 1)},w\n" for i in range(200))
    (tmp_path / "t.csv").write_text("a,c,label\n" + rows)
    with pytest.raises(BadInput, match=r"column 'c' of .*t\.csv are text; .*51 different values, such as 'v0'"):
        data(tmp_path / "t.csv")
    with pytest.raises(BadInput, match=r"leave it out of input=\[\.\.\]"):
        data(tmp_path / "t.csv", input=["a", "c"])
    assert data(tmp_path / "t.csv", input="a").x.shape == (200, 1)
    short = tmp_path / "s.csv"
    short.write_text("a,c,label\n1,car,w\n2,bus,w\n")
    assert data(short, input=["a", "c"]).inputs == ("a", "c=bus", "c=car")  # as one device may have it
