"""IDX, CIFAR-10, Omniglot and folders of pictures, from small files in the same formats."""

import gzip
import zipfile

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.registry import builder
from fedfleet.tasks.photos import cifar_cnn, openimage_vit
from fedfleet.tasks.readers.cifar import MEAN, SPREAD
from fedfleet.tasks.readers.idx import read_idx
from fedfleet.tasks.small_images import FASHION, fashion_cnn, mlp, omniglot_cnn
from fedfleet.tasks.sources import read
from fedfleet.tasks.xrays import covidfl_vit
from tests.tasks.files import idx, png, written

RNG = np.random.default_rng(1)


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    return tmp_path


def put_idx(folder, ending, pack=lambda b: b):
    parts = {"train": 6, "t10k": 3}
    images = {p: RNG.integers(256, size=(n, 28, 28)) for p, n in parts.items()}
    labels = {p: RNG.integers(10, size=n) for p, n in parts.items()}
    for p in parts:
        written(folder / f"{p}-images-idx3-ubyte{ending}", pack(idx(images[p])))
        written(folder / f"{p}-labels-idx1-ubyte{ending}", pack(idx(labels[p])))
    return np.concatenate(list(images.values())), np.concatenate(list(labels.values()))


@pytest.mark.parametrize("name", ["mnist_mlp", "mlp", "logreg"])
def test_mnist_is_read_plain(data, name):
    x, y = put_idx(data / "mnist", "")
    found = builder("tasks", name)()(0).dataset
    assert np.allclose(found.x[:, 0] * 255, x, atol=1e-3) and np.array_equal(found.y, y)
    assert found.x.dtype == np.float32 and found.y.dtype == np.int64


def test_fashion_is_read_gzipped_and_limited(data):
    x, y = put_idx(data / "fashion-mnist", ".gz", gzip.compress)
    assert np.array_equal(fashion_cnn()(0).dataset.y, y)
    few = fashion_cnn(samples=4)(0).dataset
    assert len(few.y) == 4 and len(few.x) == 4
    assert len(mlp()(0).dataset.y) == len(x)  # no MNIST here, so clothes


def test_damaged_idx_files_are_named(data):
    put_idx(data / "fashion-mnist", "")
    labels = data / "fashion-mnist" / "t10k-labels-idx1-ubyte"
    labels.write_bytes(labels.read_bytes()[:-1])
    with pytest.raises(BadInput, match=r"Fashion-MNIST cannot be read from .*2 bytes instead of 3"):
        read(FASHION, data / "fashion-mnist" / "train-images-idx3-ubyte")
    with pytest.raises(ValueError, match="no IDX file"):
        read_idx(written(data / "other", b"hello"))


def test_cifar_in_its_binary_version(data):
    records = {}
    for name in ("data_batch_1", "data_batch_2", "test_batch"):
        records[name] = RNG.integers(256, size=(4, 3073)).astype(np.uint8)
        records[name][:, 0] %= 10
        written(data / "cifar10" / f"{name}.bin", records[name].tobytes())
    found = cifar_cnn()(0).dataset
    every = np.concatenate(list(records.values()))
    assert np.array_equal(found.y, every[:, 0])
    blue = (every[5, 1 + 2048 : 3073].reshape(32, 32) / 255 - MEAN[2]) / SPREAD[2]
    assert np.allclose(found.x[5, 2], blue, atol=1e-5)
    records["test_batch"][0, 0] = 10
    written(data / "cifar10" / "test_batch.bin", records["test_batch"].tobytes())
    with pytest.raises(BadInput, match="ten classes"):
        cifar_cnn()(0)


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
    found = omniglot_cnn()(0).dataset
    assert found.x.shape == (18, 1, 28, 28) and found.classes == 6
    assert sorted(np.bincount(found.owner)) == [6, 6, 6]
    assert np.allclose(found.x.mean((1, 2, 3)), (found.owner + 1) / 3, atol=0.01)  # ink is 1


def picture(level):
    return png(np.full((10, 12), level))


def test_pictures_listed_in_a_table(data):
    lines = ["client_id,sample_path,label_name,label_id"]
    for i in range(6):
        lines.append(f"{i % 2},{i}.png,thing,{i % 3}")
        written(data / "openimage" / "train" / f"{i}.png", picture(10 * i))
    written(data / "openimage" / "client_data_mapping" / "train.csv", "\n".join(lines))
    found = openimage_vit(side=8)(0).dataset
    assert found.x.shape == (6, 3, 8, 8) and found.classes == 3
    assert np.allclose(found.x[:, 1, 4, 4] * 255, 10 * np.arange(6), atol=0.01)
    assert found.owner.tolist() == [0, 1] * 3 and found.y.tolist() == [0, 1, 2] * 2
    (data / "openimage" / "train" / "3.png").unlink()
    with pytest.raises(BadInput, match=r"the picture 3\.png is in none of"):
        openimage_vit(side=8)(0)
    with pytest.raises(BadInput, match=r"task\.side"):
        openimage_vit(side=12)


def test_pictures_in_folders_of_clients(data):
    for client in ("ann", "bob"):
        for label in ("cat", "dog"):
            written(data / "openimage" / client / label / "1.png", picture(50))
    found = openimage_vit(side=8)(0).dataset
    assert found.owner.tolist() == [0, 0, 1, 1] and found.y.tolist() == [0, 1, 0, 1]


def test_covid_fl_lists_of_hospitals(data):
    names = [f"{i}.png" for i in range(5)]
    for name in names:
        written(data / "covid-fl" / "train" / name, picture(99))
    written(data / "covid-fl" / "labels.csv", "\n".join(f"{n},{i % 3}.0" for i, n in enumerate(names)))
    split = data / "covid-fl" / "12_clients" / "split_real"
    written(split / "bimcv.csv", "\n".join(names[:3]))
    written(split / "ricord.csv", "\n".join(names[3:] + names[3:]))
    found = covidfl_vit(side=8)(0).dataset
    assert found.owner.tolist() == [0, 0, 0, 1, 1] and found.y.tolist() == [0, 1, 2, 0, 1]


def test_a_table_without_its_columns_is_refused(data):
    written(data / "openimage" / "clients.csv", "who,what\n1,2\n")
    with pytest.raises(BadInput, match="must name client, path and label"):
        openimage_vit()(0)
