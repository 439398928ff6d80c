"""Texts of clients as windows: the label of a place is the character that follows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.tasks.user_data.character_windows import character_windows
from fedfleet.tasks.user_data.samples import data
from tests.tasks.user_data.tables import Table

law = settings(deadline=None, derandomize=True, max_examples=40)
texts = st.dictionaries(st.sampled_from("abcd"), st.text("xyz é\n𝄞", max_size=30), min_size=1)


@law
@given(texts, st.integers(2, 8))
def test_windows_are_the_text_again(texts, context):
    if not any(len(text) > context for text in texts.values()):
        with pytest.raises(BadInput, match="no text in notes is longer"):
            character_windows("notes", texts, context)
        return
    found = character_windows("notes", texts, context)
    assert (found.x[:, 1:] == found.y[:, :-1]).all() and found.x.shape[1] == context
    for number, name in enumerate(found.owners):
        rows = found.x[found.owner == number]
        words = "".join(found.vocabulary[i] for i in rows.ravel())
        assert texts[name].startswith(words) and len(texts[name]) - len(words) <= context
        assert texts[name][len(words)] == found.vocabulary[found.y[found.owner == number][-1, -1]]
    assert len(found.owners) + (1 if found.warnings else 0) <= len(texts)


def test_a_folder_of_texts(tmp_path):
    for name, text in (("ann", "hello world " * 9), ("bob", "abc " * 20), ("cem", "hi")):
        (tmp_path / f"{name}.txt").write_text(text)
    found = data(tmp_path)
    assert found.kind.name == "next_token" and found.owners == ("ann", "bob") and found.x.shape[1] == 32
    assert found.labels == found.vocabulary == tuple(sorted(set("hello world abc"))) and found.classes == 11
    assert (
        "1 of 3 texts" in found.warnings[0] and repr(found) == "OwnData(5 samples of 2 owners, inputs (32,), 11 tokens, 1 warning)"
    )
    dataset = found.dataset()
    assert dataset.x.dtype == dataset.y.dtype == "int64" and dataset.label_names == found.vocabulary
    assert data(tmp_path / "ann.txt", context=4).owner is None


def test_a_column_of_text_by_owner(tmp_path):
    (tmp_path / "t.csv").write_text('who,text\nann,"hello, you"\nbob,12345\nann,again\n')
    found = data(tmp_path / "t.csv", input="text", owner="who", kind="next_token", context=4)
    first = "".join(found.vocabulary[i] for i in found.x[found.owner == 0].ravel())
    assert first == "hello, you\nagain"[:12] and found.owners == ("ann", "bob")
    table = Table(text=["hello", None, "you"])
    assert data(table, input="text", kind="next_token", context=2).owner is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"kind": "next_token"}, "needs the one column"),
        ({"kind": "next_token", "input": "txt"}, "did you mean 'text'"),
        ({"kind": "next_token", "input": "rows"}, "has no text"),
        ({"kind": "next_token", "input": "text", "label": "n"}, "the label is the next character"),
        ({"kind": "next_token", "input": "text", "context": 30}, "longer than context = 30 characters (the longest has 11)"),
        ({"kind": "next_token", "input": "text", "context": 4, "scale": "standard"}, "characters have no scale"),
    ],
)
def test_mistakes(words, says):
    with pytest.raises(BadInput) as wrong:
        data(Table(text=["hello", "again"], n=[1, 2], rows=[[1], [2]]), **words)
    assert says in str(wrong.value)


def test_a_text_is_no_table(tmp_path):
    (tmp_path / "ann.txt").write_text("hello world")
    for words, says in (({"kind": "classification"}, "is text"), ({"label": "a"}, "label=.. has no meaning")):
        with pytest.raises(BadInput, match=says):
            data(tmp_path, context=4, **words)


def test_text_with_a_label_of_its_own_is_refused():
    table = Table(text=[f"hello {i}" for i in range(60)], label=[0, 1] * 30)
    for words in ({"input": "text"}, {}):
        with pytest.raises(BadInput, match='predict the text itself with kind = "next_token"'):
            data(table, **words)
