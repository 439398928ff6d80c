"""Parquet: columns of every type that people have, and what they are told without pyarrow."""

import sys
from datetime import datetime

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.user_data.arrow_tables import read_parquet
from fedfleet.tasks.user_data.samples import data
from tests.tasks.files import png

pa = pytest.importorskip("pyarrow")


def written(path, **columns):
    from pyarrow import parquet

    parquet.write_table(pa.table(columns), path)
    return path


def test_every_type_of_column(tmp_path):
    path = written(
        tmp_path / "t.parquet",
        a=pa.array([1, None, 3], pa.int32()),
        b=pa.array([0.5, float("nan"), 2.5]),
        ok=pa.array([True, False, True]),
        kind=pa.array(["car", "bus", "car"]).dictionary_encode(),
        when=pa.array([datetime(2024, 1, 1)] * 3),
        who=pa.array([7, 8, 7]),
        other=pa.array([{"p": 1}] * 3),
        label=pa.array(["w", "r", "w"]),
    )
    names = ["a", "b", "ok", "kind"]
    found = data(path, input=names, owner="who", time="when", missing="mean")
    assert found.x.tolist() == [[1, 0.5, 1, 0, 1], [2, 1.5, 0, 1, 0], [3, 2.5, 1, 0, 1]]
    assert found.owners == ("7", "8") and found.time.tolist() == [1704067200.0] * 3 and found.labels == ("r", "w")
    with pytest.raises(BadInput, match=r"'a', 1 in 'b', the first in .*row 1"):
        data(path, input=names)
    with pytest.raises(BadInput, match=r"row 0, column other: .* is not an array of numbers"):
        data(path)


def test_rows_of_numbers(tmp_path):
    path = written(tmp_path / "t.parquet", x=pa.array([[1.0, 2.0], [3.0, 4.0]]), label=pa.array([0, 1]))
    assert data(path).x.tolist() == [[1, 2], [3, 4]]
    ragged = written(tmp_path / "r.parquet", x=pa.array([[1.0], [3.0, 4.0]]), label=pa.array([0, 1]))
    with pytest.raises(BadInput, match="column x"):
        data(ragged)


def test_parquet_and_csv_are_the_same_table(tmp_path):
    path = written(tmp_path / "t.parquet", a=pa.array([1.5, 2.0]), c=pa.array(["x", "y"]), label=pa.array([3, 4]))
    (tmp_path / "t.csv").write_text("a,c,label\n1.5,x,3\n2.0,y,4\n")
    one, two = (data(tmp_path / name, input="a") for name in ("t.parquet", "t.csv"))
    assert np.array_equal(one.x, two.x) and one.labels == two.labels == ("3", "4") and one.y.tolist() == two.y.tolist()
    assert read_parquet(path).names == ("a", "c", "label")


def test_pictures_as_hugging_face_writes_them(tmp_path):
    rows = [{"bytes": png(np.full((4, 5), level)), "path": None} for level in (0, 255)]
    found = data(written(tmp_path / "t.parquet", image=pa.array(rows), label=pa.array([1, 0])))
    assert found.x.shape == (2, 1, 4, 5) and found.x[:, 0, 0, 0].tolist() == [0, 1]
    rows[1]["bytes"] = b"no picture"
    with pytest.raises(BadInput, match="the picture of row 1 in 'image'"):
        data(written(tmp_path / "t.parquet", image=pa.array(rows), label=pa.array([1, 0])))


def test_mistakes(tmp_path, monkeypatch):
    (tmp_path / "t.parquet").write_bytes(b"PAR1 is no table PAR1")
    with pytest.raises(BadInput, match="cannot be read as Parquet"):
        data(tmp_path / "t.parquet")
    with pytest.raises(BadInput, match="no sample"):
        data(written(tmp_path / "e.parquet", a=pa.array([], pa.int32()), label=pa.array([], pa.int32())))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BadInput, match=r"install fedfleet\[parquet\]"):
        data(tmp_path / "t.parquet")
