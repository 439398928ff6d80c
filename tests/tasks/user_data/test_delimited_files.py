"""Tables as text: the same table with and without pyarrow, whatever is in it; garbled bytes are refused in a sentence."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.tasks.user_data.cells import cell_numbers
from fedfleet.tasks.user_data.columns import MISSING, is_number
from fedfleet.tasks.user_data.delimited_files import read_delimited
from fedfleet.tasks.user_data.samples import data
from tests.tasks.files import png

law = settings(deadline=None, derandomize=True, max_examples=60)
numbers = st.one_of(st.integers(-(10**6), 10**6).map(str), st.floats(allow_nan=False, allow_infinity=False).map(repr))
words = st.sampled_from(
    ["walk", "run", "sit down", '"a, b"', '"say ""x"""', "Zoë", " padded ", "12 a", "1_0", "inf", "1e999", "+5", "٣"]
)
cells = st.one_of(numbers, words, st.sampled_from(sorted(MISSING)), st.text("0123456789,\"'.; \r\n\té_-", max_size=6))


def same_table(path):
    """What both readers make of a file: the same columns, or the same refusal."""
    found = []
    for arrow in (False, True):
        try:
            table = read_delimited(path, arrow=arrow)
            found.append([(c.name, c.names, c.values.tobytes(), c.values.dtype) for c in table.columns])
        except BadInput as error:
            found.append(str(error))
    assert found[0] == found[1]
    return found[0]


@law
@given(
    st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), max_size=6)), st.booleans()
)
def test_pyarrow_changes_nothing(tmp_path_factory, rows, header):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    lines = [",".join(f"c{i}" for i in range(len(rows[0]) if rows else 1))] * header + [",".join(row) for row in rows]
    path.write_bytes("\n".join(lines).encode())
    same_table(path)


@law
@given(st.lists(st.tuples(numbers, numbers, st.sampled_from(["walk", "run", '"sit, down"'])), min_size=1, max_size=30))
def test_numbers_and_names_are_read_by_both(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text("\r\n".join(["a,b,label", *(",".join(row) for row in rows)]))
    (_, none, a, dtype), _, (_, names, codes, _) = same_table(path)
    assert none is None and np.frombuffer(a, dtype).tolist() == [float(row[0]) for row in rows]
    assert [names[i] for i in np.frombuffer(codes, np.int64)] == [row[2].strip('"') for row in rows]


def test_pyarrow_reads_a_plain_table_itself(tmp_path):
    from fedfleet.tasks.user_data.arrow_tables import csv_columns
    from fedfleet.tasks.user_data.delimited_files import _layout, text_content

    path = tmp_path / "t.csv"
    for text, reads in (("a,b\n1,?\n2,walk\n", True), ("a,b\n1,x\n2\n", False), ("a,b\n1,x\n,\n", False), ('a,b\n1,x"y\n', False)):
        path.write_text(text)
        content = text_content(path)
        assert (csv_columns(_layout(path, content), content, frozenset()) is not None) == reads


def test_text_that_is_found_late_makes_a_column_of_text(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,label\n" + "1,2\n" * 20_500 + "1,walk\n")
    assert [column.names for column in read_delimited(path, arrow=False).columns] == [None, ("2", "walk")]
    same_table(path)


def archive(suffix):
    """A whole file of a binary kind."""
    file = io.BytesIO()
    if suffix == ".npz":
        np.savez_compressed(file, x=np.arange(6.0).reshape(3, 2), y=np.array([0, 1, 0]), owner=np.array(["a", "b", "a"]))
    elif suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pa.table({"a": [1.5, None, 2.0], "c": ["x", "y", "x"], "label": [0, 1, 0]}), file)
    return file.getvalue()


WHOLE = {
    ".csv": b'a,b,label\n1,2,walk\n"3",4,"run, fast"\n5,,sit\n',
    ".tsv": b"a\tb\tlabel\n1\t2\twalk\n3\t4\trun\n",
    ".txt": b"hello world",
    ".arff": b"@relation r\n@attribute a numeric\n@attribute c {x,'y z'}\n@data\n1,x\n2,'y z'\n?,x\n",
    ".json": b'{"user_data": {"u": {"x": [[1, 2]], "y": [3]}, "v": {"x": [[5, 6]], "y": [0]}}}',
    ".npz": archive(".npz"),
    ".parquet": archive(".parquet"),
    ".png": png(np.arange(20).reshape(4, 5)),
}


def is_data_or_refused(path):
    """Reading gives samples, or one sentence; no other exception ends it."""
    try:
        found = data(path, context=2, missing="drop")
    except BadInput as error:
        return str(error).startswith("data: ") and "\n" not in str(error)
    return len(found.y) == len(found.x) > 0


@law
@given(st.data(), st.sampled_from(sorted(WHOLE)), st.binary(max_size=12), st.booleans())
def test_garbled_bytes_are_data_or_bad_input(tmp_path_factory, draw, suffix, noise, cut):
    folder = tmp_path_factory.mktemp("fuzz")
    path = folder / (f"ann/cat/1{suffix}" if suffix == ".png" else f"t{suffix}")
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = WHOLE[suffix]
    at = draw.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:at] + noise + (b"" if cut else whole[at + len(noise) :]))
    assert is_data_or_refused(folder if suffix == ".png" else path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"\xff\xfea\x00,\x00b\x00", "is UTF-16"),
        (b"a,b\n1,\xe4\n", "line 2 is not UTF-8 (byte 0xe4)"),
        (b"a,b\n1,\x00\n", "line 2 has a zero byte"),
        (b" \n\n", "is empty"),
        (b"a,b,a\n1,2,3\n", "line 1 names two columns 'a' (columns 1 and 3)"),
        (b'a,b\n1,"walk\n2,run\n', "line 3: unexpected end of data"),
        (b"a;b;label\n1,5;2;w\n3,5;1;r\n", "line 2, column a: '1,5' has a comma in a number"),
        (b"1,5;2,5;w\n", "line 1: '1,5' has a comma in a number"),
        (b'a,label\n"1,204",w\n"3,500",r\n', "'1,204' has a comma"),
        (b'a,label\n1,"3,5"\n1,"4,5"\n', "line 2, column label: '3,5' has a comma"),
        (b"a,b,label\n1,2,w\n3,4,w,5\n", "line 3 has 4 cells, but the first line has 3"),
        (b"a,name,label\n1,ann,w\n2,bob,w\n", "column 'name' of"),
        (b"a,b,label\n1,2,1.5\n1,2,x\n1,2,3\n", "line 3, column label: 'x' is not a number"),
    ],
)
@pytest.mark.parametrize("arrow", [False, True])
def test_mistakes(tmp_path, monkeypatch, text, says, arrow):
    from fedfleet.tasks.user_data import delimited_files

    monkeypatch.setattr(delimited_files, "_LARGE", 0 if arrow else 1 << 60)
    (tmp_path / "t.csv").write_bytes(text)
    with pytest.raises(BadInput) as wrong:
        data(tmp_path / "t.csv")
    assert says in str(wrong.value) and "t.csv" in str(wrong.value)


def test_a_first_column_that_counts_the_lines_is_left_out(tmp_path):
    (tmp_path / "t.csv").write_text(",a,label\n0,5,w\n1,7,r\n")
    found = data(tmp_path / "t.csv")
    assert found.inputs == ("a",) and "is left out" in found.warnings[0]
    (tmp_path / "t.csv").write_text(",a,label\n3,5,w\n1,7,r\n")
    assert data(tmp_path / "t.csv").inputs == ("column 1", "a")


def test_tabs_and_semicolons_separate_too(tmp_path):
    (tmp_path / "t.tsv").write_text("a\tlabel\n1\tone, two\n2\tthree\n")
    assert data(tmp_path / "t.tsv").labels == ("one, two", "three")
    (tmp_path / "t.csv").write_text('a; "b; c, d"; label\n1; 2; 3\n')
    assert read_delimited(tmp_path / "t.csv").names == ("a", "b; c, d", "label")


def test_numbers_of_other_programs_are_none():
    assert not any(is_number(text) for text in ("1_000", "inf", "nan", "1,5", "0x10", "", "٣", "1e", "--1"))
    assert cell_numbers([" 1 ", "NA", "-.5e1"])[[0, 2]].tolist() == [1.0, -5.0]
    assert cell_numbers(["1", "1_0"]) is None and cell_numbers(["1", "-inf"]) is None
