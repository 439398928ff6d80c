"""Weka's files: nominal attributes keep their declared order, quotes and comments are read, sparse lines are refused."""

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.user_data.arff_files import read_arff
from fedfleet.tasks.user_data.samples import data

HEAD = "@relation r\n@attribute a numeric\n@attribute c {x,y}\n@data\n"
WHOLE = """% activity of one person
@RELATION 'har data'

@attribute 'mean x' REAL
@attribute device {phone, 'smart watch'}
@attribute note string
@attribute "class" {walking, running, 'sit, down', never}
@data
1.5, phone, 'it\\'s me', walking
% a comment

?, 'smart watch', quiet, 'sit, down'
"""


def test_a_whole_file(tmp_path):
    (tmp_path / "h.arff").write_text(WHOLE)
    table = read_arff(tmp_path / "h.arff")
    assert table.names == ("mean x", "device", "note", "class") and table.column("note").names == ("it's me", "quiet")
    found = data(tmp_path / "h.arff", input=["mean x", "device"], missing="mean")
    assert found.inputs == ("mean x", "device=phone", "device=smart watch")
    assert found.x.tolist() == [[1.5, 1, 0], [1.5, 0, 1]] and found.y.tolist() == [0, 2]
    assert found.labels == ("walking", "running", "sit, down", "never") and found.classes == 4 == found.dataset().classes


def test_a_file_for_each_client_numbers_classes_alike(tmp_path):
    (tmp_path / "ann.arff").write_text(HEAD + "1,y\n")
    (tmp_path / "bob.arff").write_text(HEAD + "2,x\n3,y\n")
    found = data(tmp_path)
    assert found.y.tolist() == [1, 0, 1] and found.owners == ("ann", "bob") and found.owner.tolist() == [0, 1, 1]


def test_double_quotes_too(tmp_path):
    (tmp_path / "h.arff").write_text('@relation r\n@attribute a {"u, v", w}\n@attribute b integer\n@data\n"u, v",1\nw,2\n')
    assert data(tmp_path / "h.arff", label="a").labels == ("u, v", "w")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + "1,z\n", "line 5, column c: 'z' is not one of x, y"),
        (HEAD + "1,x\n\n{0 1, 1 y}\n", "line 7 is sparse"),
        (HEAD + "fast,x\n", "line 5, column a: 'fast' is not a number"),
        (HEAD + "1,x\n2\n", "line 6 has 1 cells, but the header declares 2"),
        (HEAD, "no sample"),
        (HEAD + "1,'x\n", "line 5: unexpected end of data"),
        (HEAD.replace("numeric", "relational"), "line 2: 'a' has the type 'relational'"),
        (HEAD.replace("{x,y}", "{x,,y}"), "line 3: 'c' has the type '{x,,y}'"),
        (HEAD.replace("@data", "@attribute a numeric"), "line 4 declares 'a' again"),
        (HEAD.replace("@data\n", ""), "no line @data"),
        ("@relation r\n@data\n1\n", "line 2 begins the samples, but no @attribute"),
        ("a,b\n1,2\n", "line 1 is 'a,b', neither @relation"),
        ("", "is empty"),
        (HEAD + "1,?\n2,x\n", "1 missing value: 1 in 'c'"),
    ],
)
def test_mistakes(tmp_path, text, says):
    (tmp_path / "h.arff").write_text(text)
    with pytest.raises(BadInput) as wrong:
        data(tmp_path / "h.arff")
    assert says in str(wrong.value) and "h.arff" in str(wrong.value) and "\n" not in str(wrong.value)
