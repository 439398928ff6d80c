"""Pictures in folders, tables and lists of clients."""

import zipfile

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.photos import covidfl_vit, openimage_vit
from fedfleet.tasks.small_images import omniglot_cnn
from tests.tasks.files import png, written


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    return tmp_path


def picture(level):
    return png(np.full((10, 12), level))


def test_pictures_listed_in_a_table(data):
    lines = ["client_id,sample_path,label_name,label_id"]
    for i in range(6):
        lines.append(f"{i % 2},{i}.png,thing,{i % 3}")
        written(data / "openimage" / "train" / f"{i}.png", picture(10 * i))
    written(data / "openimage" / "client_data_mapping" / "train.csv", "\n".join(lines))
    result = openimage_vit(side=8)(0).dataset
    assert result.x.shape == (6, 3, 8, 8) and result.classes == 3
    assert np.allclose(result.x[:, 1, 4, 4] * 255, 10 * np.arange(6), atol=0.01)
    assert result.owner.tolist() == [0, 1] * 3 and result.y.tolist() == [0, 1, 2] * 2
    (data / "openimage" / "train" / "3.png").unlink()
    with pytest.raises(BadInput, match=r"the picture 3\.png was not found in any of"):
        openimage_vit(side=8)(0)
    with pytest.raises(BadInput, match=r"task\.side"):
        openimage_vit(side=12)


def test_pictures_in_folders_of_clients(data):
    for client in ("ann", "bob"):
        for label in ("cat", "dog"):
            written(data / "openimage" / client / label / "1.png", picture(50))
    result = openimage_vit(side=8)(0).dataset
    assert result.owner.tolist() == [0, 0, 1, 1] and result.y.tolist() == [0, 1, 0, 1]


def test_covid_fl_lists_of_hospitals(data):
    names = [f"{i}.png" for i in range(5)]
    for name in names:
        written(data / "covid-fl" / "train" / name, picture(99))
    written(data / "covid-fl" / "labels.csv", "\n".join(f"{n},{i % 3}.0" for i, n in enumerate(names)))
    split = data / "covid-fl" / "12_clients" / "split_real"
    written(split / "bimcv.csv", "\n".join(names[:3]))
    written(split / "ricord.csv", "\n".join(names[3:] + names[3:]))
    result = covidfl_vit(side=8)(0).dataset
    assert result.owner.tolist() == [0, 0, 0, 1, 1] and result.y.tolist() == [0, 1, 2, 0, 1]


def test_a_table_without_its_columns_is_refused(data):
    written(data / "openimage" / "clients.csv", "who,what\n1,2\n")
    with pytest.raises(BadInput, match="must name the columns client, path and label"):
        openimage_vit()(0)


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
