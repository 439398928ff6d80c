"""Columns of somebody else's table as inputs, labels and owners."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.user_data.datasets import is_torch_dataset
from fedfleet.tasks.user_data.samples import OwnData, data, read_user_data
from tests.tasks.user_data.tables import Table


class Picture:
    """As PIL has them: an array of bytes with bands."""

    def __init__(self, *shape):
        self.pixels = np.full(shape, 255, np.uint8)

    def getbands(self):
        return ("L",)

    def __array__(self, dtype=None, copy=None):
        return self.pixels


def test_pictures_labels_with_names_and_people():
    table = Table(names=["cat", "dog"], image=[Picture(4, 5, 3)] * 3, label=[0, 1, 1], user=["b", "a", "b"])
    result = data(table, input="image", label="label", owner="user")
    assert result.x.shape == (3, 3, 4, 5) and result.x.max() == 1.0
    assert (result.labels, result.owners, result.owner.tolist()) == (("cat", "dog"), ("a", "b"), [1, 0, 1])
    grey = data(Table(img=[Picture(4, 5)] * 2, label=[0, 1]))
    assert grey.x.shape == (2, 1, 4, 5) and grey.owner is None


def test_several_columns_of_numbers_stand_side_by_side():
    result = data(Table(a=[1, 2], b=[3.0, 4.0], label=["u", "v"]), input=["b", "a"])
    assert result.x.tolist() == [[3, 1], [4, 2]] and result.inputs == ("b", "a")
    assert data(Table(a=[[1, 2], [3, 4]], target=[1, 0])).x.tolist() == [[1, 2], [3, 4]]


def test_a_pandas_table_is_one_too():
    class Frame(Table):
        def __init__(self, **columns):
            super().__init__(**columns)
            self.columns = self.column_names
            del self.column_names, self.features

    assert data(Frame(x=[1.0, 2.0], y=["a", "b"])).labels == ("a", "b")


def test_all_columns_of_numbers_are_inputs_where_nothing_else_is_said_or_left():
    table = Table(p=[1, 2], q=[0.5, 1.5], label=["u", "v"], who=["ann", "bob"])
    assert data(table, owner="who").x.tolist() == [[1, 0.5], [2, 1.5]]


def test_columns_that_nobody_named_are_numbers_to_pandas():
    table = Table(label=["u", "v"])
    table.column_names, table._columns = [0, 1, "label"], {0: [1.0, 2.0], 1: [3.0, 4.0], "label": ["u", "v"]}
    assert data(table).x.tolist() == [[1, 3], [2, 4]]
    assert data(table, input="1").x.tolist() == [[3], [4]]


@pytest.mark.parametrize(
    ("table", "words", "says"),
    [
        (Table(x=[[1]], a=[0]), {}, "none of the columns x, a is called label"),
        (Table(x=[[1]], label=[0]), {"input": "y"}, "input='y' is not one of the columns x, label"),
        (Table(image=[[1]], label=[0]), {"label": "lable"}, "did you mean 'label'"),
        (Table(x=[[1]], label=[0]), {"owner": "user"}, "owner='user' is not one of"),
        (Table(p=[1], q=["far"], label=[0]), {}, "which of the columns p, q are the inputs"),
        (Table(p=[[1]], q=[1], label=[0]), {}, "which of the columns p, q are the inputs"),
        (Table(label=[0]), {}, "none is left"),
        (Table(x=[[1]], label=[0]), {"input": "label"}, "both input and label"),
        (Table(x=["a text"], label=[0]), {}, "are text; convert them into numbers"),
        (Table(x=[[1], [1, 2]], label=[0, 1]), {}, r"sample 1 has the shape \(2,\), but sample 0 has \(1,\)"),
        (Table(x=[[1], None], label=[0, 1]), {}, "sample 1 is empty"),
        (Table(x=[[[1], [1, 2]]], label=[0]), {}, "rows of different length"),
        (Table(x=[], label=[]), {}, "is empty"),
        (Table(x=[[1]], a=[[1]], label=[0]), {"input": ["x", "a"]}, "the only input"),
        (Table(x=[[1]], label=[0], user=[None]), {"owner": "user"}, "1 in 'user', the first in sample 0"),
        (Table(x=[{"a": 1}], label=[0]), {}, "not an array of numbers"),
        (SimpleNamespace(column_names={"train": ["x"], "test": ["x"]}), {}, "splits train, test; give one of them"),
        (SimpleNamespace(column_names=["x"]), {}, "not streaming"),
        (3, {}, "int cannot be read; give a folder"),
    ],
)
def test_mistakes(table, words, says):
    with pytest.raises(BadInput, match=says):
        data(table, **words)


def torch_parts():
    torch = pytest.importorskip("torch")
    return torch, torch.utils.data


def test_samples_of_pytorch_come_in_their_order():
    torch, parts = torch_parts()
    x, y = torch.arange(12.0).reshape(6, 2), torch.tensor([0, 1, 2, 0, 1, 2])
    dataset = parts.TensorDataset(x, y)
    loader = parts.DataLoader(parts.Subset(dataset, [4, 1, 0]), batch_size=2, shuffle=True)
    assert data(dataset).x.tolist() == x.tolist() and data(dataset).y.tolist() == y.tolist()
    assert data(loader).x.tolist() == x[[4, 1, 0]].tolist() and is_torch_dataset(loader) and not is_torch_dataset([1])
    assert isinstance(read_user_data(loader), OwnData)


def test_samples_of_pytorch_have_owners_names_and_streams():
    _, parts = torch_parts()

    class Rows(parts.Dataset):
        classes = ("walk", "run")

        def __len__(self):
            return 3

        def __getitem__(self, i):
            return np.full((1, 2), i, np.float32), np.int64(i % 2), f"p{i % 2}"

    class Stream(parts.IterableDataset):
        def __iter__(self):
            yield from ({"image": [float(i)], "target": i / 2, "user": 7, "at": i} for i in range(4))

    found = data(Rows())
    assert (found.labels, found.owners, found.y.tolist()) == (("walk", "run"), ("p0", "p1"), [0, 1, 0])
    stream = data(Stream(), time="at")
    assert stream.kind.name == "regression" and stream.owners == ("7",) and stream.time.tolist() == [0, 1, 2, 3]
    assert data(Stream(), label="at", input="target").x.tolist() == [[0], [0.5], [1], [1.5]]
    with pytest.raises(BadInput, match="owner='x' is not one of the parts"):
        data(Stream(), owner="x")
    with pytest.raises(BadInput, match="samples of Rows have no names, so label="):
        data(Rows(), label="y")


def test_a_stream_of_hugging_face_knows_its_classes():
    _, parts = torch_parts()

    class Stream(parts.IterableDataset):
        def __init__(self):
            self.features = {"x": SimpleNamespace(), "label": SimpleNamespace(names=["cat", "dog", "owl"])}

        def __iter__(self):
            return iter({"x": [i], "label": i % 2} for i in range(3))

    found = data(Stream())
    assert found.labels == ("cat", "dog", "owl") and found.y.tolist() == [0, 1, 0] and found.classes == 3


def test_a_stream_without_end_is_bounded(monkeypatch):
    from fedfleet.tasks.user_data import datasets

    _, parts = torch_parts()

    class Endless(parts.IterableDataset):
        def __iter__(self):
            return ((([0.0], 1)) for _ in iter(int, 1))

    monkeypatch.setattr(datasets, "MOST_SAMPLES", 50)
    with pytest.raises(BadInput, match="more than 50 samples, or no end"):
        data(Endless())


@pytest.mark.parametrize(
    ("samples", "says"),
    [
        ([], "has no samples"),
        ([3], "a sample of Rows is a int"),
        ([(1, 2, 3, 4)], "is 4 things"),
        ([([1.0], 0), ([1.0],)], "sample 1 of Rows is not like the first"),
        ([([1.0], 0), ([1.0, 2.0], 0)], r"sample 1 has the shape \(2,\)"),
        ([([1.0], 0), None], "sample 1 of Rows cannot be read: KeyError: 'gone'"),
        ([({"a": 1}, 0)], "not an array of numbers"),
        ([{"p": 1, "q": 2}], "none of the parts p, q of a sample is called x"),
    ],
)
def test_mistakes_in_samples_of_pytorch(samples, says):
    _, parts = torch_parts()

    class Rows(parts.Dataset):
        def __len__(self):
            return len(samples)

        def __getitem__(self, i):
            if samples[i] is None:
                raise KeyError("gone")
            return samples[i]

    with pytest.raises(BadInput, match=says):
        data(Rows())


def test_categories_of_pandas_keep_their_order():
    class Series(list):
        cat = SimpleNamespace(categories=["slow", "fast", "never"], codes=np.array([1, 0, -1]))

    table = Table(x=[1.0, 2.0, 3.0], label=Series(["fast", "slow", None]))
    found = data(table, missing="drop")
    assert found.labels == ("slow", "fast", "never") and found.y.tolist() == [1, 0] and found.classes == 3


def test_words_that_come_again_and_again_become_columns():
    table = Table(kind=["car", "bus", "car"], ok=[True, False, True], label=[0, 1, 0])
    found = data(table)
    assert found.inputs == ("kind=bus", "kind=car", "ok") and found.x.tolist() == [[0, 1, 1], [1, 0, 0], [0, 1, 1]]


def test_a_column_that_cannot_be_decoded_is_named():
    class Broken(Table):
        def __getitem__(self, name):
            raise OSError("no such picture")

    with pytest.raises(BadInput, match="the column 'x' cannot be read: OSError: no such picture"):
        data(Broken(x=[1], label=[0]))
