"""Folders of pictures: CLIENT/CLASS/picture, of one size."""

import sys

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.user_data.image_folders import read_image_folder
from fedfleet.tasks.user_data.picture_bytes import decode_picture
from fedfleet.tasks.user_data.samples import data
from tests.tasks.files import png, written


def picture(level, height=4, width=5):
    return png(np.full((height, width), level))


def folder(at):
    for client, label, level in (("bob", "cat", 0), ("ann", "dog", 255), ("ann", "cat", 51)):
        written(at / client / label / "1.png", picture(level))
    (at / ".hidden").mkdir()
    return at


def test_classes_and_clients_are_the_folders(tmp_path):
    found = data(folder(tmp_path))
    assert (found.labels, found.owners) == (("cat", "dog"), ("ann", "bob"))
    assert found.x.shape == (3, 1, 4, 5) and found.x[:, 0, 0, 0].tolist() == pytest.approx([0.2, 1.0, 0.0])
    assert found.y.tolist() == [0, 1, 0] and found.owner.tolist() == [0, 0, 1] and found.warnings == ()
    assert read_image_folder(tmp_path).where == str(tmp_path) and decode_picture(picture(7), "a").tolist() == [[[7]] * 5] * 4


def test_folders_of_classes_alone_have_no_owners(tmp_path):
    for label in ("cat", "dog"):
        written(tmp_path / label / "1.png", picture(9))
    found = data(tmp_path)
    assert found.labels == ("cat", "dog") and found.owner is None and "CLIENT/CLASS" in found.warnings[0]


def test_other_formats_and_colours_come_by_pillow(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    folder(tmp_path)
    image.new("RGB", (5, 4), (255, 0, 0)).save(tmp_path / "ann/dog/2.jpg")
    found = data(tmp_path)
    assert found.x.shape == (4, 3, 4, 5) and found.x[2, 0].min() > 0.9 > 0.1 > found.x[2, 1].max()
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(BadInput, match=r"2\.jpg is no PNG, and Pillow, .* is not installed"):
        data(tmp_path)


def test_mistakes(tmp_path):
    written(folder(tmp_path) / "bob/cat/2.png", picture(1, 7, 6))
    with pytest.raises(BadInput, match=r"2\.png has 6 x 7 pixels, but .*1\.png has 5 x 4"):
        data(tmp_path)
    (tmp_path / "bob/cat/2.png").write_bytes(picture(1)[:-20] + b"garbage")
    with pytest.raises(BadInput, match=r"2\.png cannot be read"):
        data(tmp_path)
    (tmp_path / "bob/cat/2.png").unlink()
    with pytest.raises(BadInput, match="no columns with names, so label="):
        data(tmp_path, label="cat")
    written(tmp_path / "bob/3.png", picture(1))
    with pytest.raises(BadInput, match=r"3\.png is not as deep in folders"):
        data(tmp_path)
