"""Omniglot from its archives."""

import zipfile

import numpy as np
import pytest

from fedfleet.tasks.small_images import omniglot_cnn
from tests.tasks.files import png


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    return tmp_path


def test_omniglot_counts_shared_drawings_once(data):
    def archive(name, alphabets):
        (data / "omniglot").mkdir(exist_ok=True)
        with zipfile.ZipFile(data / "omniglot" / name, "w") as file:
            for alphabet in alphabets:
                for c in (1, 2):
                    for drawer in (1, 2, 3):
                        ink = np.ones((105, 105), int)
                        ink[:, : 35 * drawer] = 0
                        file.writestr(f"{name[:-4]}/{alphabet}/character0{c}/00_0{drawer}.png", png(ink, depth=1))

    archive("images_background_small1.zip", ["Greek", "Latin"])
    archive("images_background_small2.zip", ["Greek", "Korean"])
    result = omniglot_cnn()(0).dataset
    assert result.x.shape == (18, 1, 28, 28) and result.classes == 6
    assert sorted(np.bincount(result.owner)) == [6, 6, 6]
    assert np.allclose(result.x.mean((1, 2, 3)), (result.owner + 1) / 3, atol=0.01)  # ink is 1
