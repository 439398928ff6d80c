"""The table of datasets."""

import re
from pathlib import PurePosixPath

from fedfleet.app.datasets.catalogue import DATASETS, datasets_text, describe_datasets


def test_the_table_is_sound():
    for dataset in DATASETS.values():
        names = [file.name for file in dataset.files]
        assert len(names) == len(set(names))
        for file in dataset.files:
            assert file.url.startswith("https://raw.githubusercontent.com/")
            path = PurePosixPath(file.name)
            assert not path.is_absolute() and ".." not in path.parts
            assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
            assert file.sha256 is None or file.size is not None


def test_the_list_says_where_everything_comes_from():
    got = {d["name"]: d for d in describe_datasets()["datasets"]}
    assert set(got) == set(DATASETS)
    assert [f["bytes"] for f in got["fedscale"]["files"]] == [39_369_071, 25_640_150]
    assert all(d["terms"] and d["summary"] for d in got.values())


def test_a_dataset_of_which_not_all_sizes_are_known_says_so():
    files = [{"bytes": 2_000_000}, {"bytes": None}]
    text = datasets_text({"datasets": [{"name": "x", "summary": "an x", "terms": "free", "files": files}]})
    assert "2 files, 2.0 MB and more; free" in text
