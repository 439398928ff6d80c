"""`fedfleet data`: what it answers, how it fails, how it goes on."""

import json

import pytest

from fedfleet.app.datasets.catalogue import DATASETS, PublicDataset, RemoteFile
from tests.app.datasets.shelf import BODY, SHA


def test_the_verb_fetches_and_answers(tiny, fedfleet, tmp_path):
    code, out, err = fedfleet("data", "tiny", "--to", tmp_path, "--json")
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert answer["folder"] == str(tmp_path / "tiny")
    assert [f["checked"] for f in answer["files"]] == ["size right, hash right", "size right, hash not known"]
    assert answer["use"] == [f"tiny:{tmp_path}/tiny/file.bin"]
    assert (tmp_path / "tiny/deep/other.bin").read_bytes() == BODY
    code, out, err = fedfleet("data", "tiny", "--to", tmp_path)
    assert (code, err) == (0, "")
    assert (
        out.count("already there") == 2 and out.count(SHA) == 2 and "hash not known" in out and "terms of a test" in out
    )
    assert len(tiny.asked) == 2


def test_a_failure_of_the_network_is_exit_1_and_says_how_to_resume(tiny, fedfleet, tmp_path):
    tiny.cut_after = 1000
    code, out, err = fedfleet("data", "tiny", "--to", tmp_path / "my data", "--json")
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    words = f"fedfleet data tiny --to '{tmp_path}/my data'"
    assert words in err
    tiny.cut_after = None
    assert fedfleet("data", "tiny", "--to", tmp_path / "my data", "--json")[0] == 0
    assert tiny.asked[1]["range"] == "bytes=1000-"


@pytest.mark.parametrize(("status", "resume"), [(404, False), (403, False), (503, True)])
def test_refusals_of_the_server_are_exit_1(tiny, fedfleet, tmp_path, status, resume):
    tiny.status = status
    code, _, err = fedfleet("data", "tiny", "--to", tmp_path)
    assert code == 1
    assert f"answers {status}" in err and tiny.url in err
    assert ("to resume" in err) == resume
    assert not (tmp_path / "tiny/file.bin").exists()


def test_a_server_that_is_not_there_is_exit_1(tiny, fedfleet, tmp_path, monkeypatch):
    gone = PublicDataset("", "", (RemoteFile("a", "http://127.0.0.1:9/a"),))  # the discard port, where nobody listens
    monkeypatch.setitem(DATASETS, "gone", gone)
    code, _, err = fedfleet("data", "gone", "--to", tmp_path)
    assert code == 1
    assert "cannot be reached" in err and "to resume" in err


def test_bad_words_and_folders_are_exit_2(tiny, fedfleet, tmp_path):
    code, out, err = fedfleet("data", "fedscal", "--json")
    assert (code, out) == (2, "")
    assert "did you mean 'fedscale'" in err
    (tmp_path / "file").write_text("not a folder")
    code, _, err = fedfleet("data", "tiny", "--to", tmp_path / "file")
    assert code == 2
    assert "cannot write" in err


def test_without_a_name_the_datasets_are_listed(fedfleet):
    code, out, _ = fedfleet("data", "--json")
    assert code == 0
    assert {d["name"] for d in json.loads(out)["datasets"]} >= {"fedscale", "flash", "flhetbench"}
    code, out, _ = fedfleet("data")
    assert code == 0
    assert "65.0 MB" in out and "flhetbench" in out
