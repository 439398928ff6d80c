"""`fedfleet list`: the parts, for programs and for people."""

import json

import pytest

import fedfleet as package
from fedfleet.app.datasets.catalogue import DATASETS, PublicDataset, RemoteFile
from fedfleet.core.registry import KINDS
from tests.app.datasets.shelf import BODY, SHA
from tests.app.specs import refused


def test_list_answers_by_the_contract(fedfleet):
    code, out, _ = fedfleet("list", "policies", "--json")
    got = json.loads(out)
    assert code == 0
    assert got["kind"] == "policies"
    assert {i["name"] for i in got["items"]} >= {"readiness", "deadline", "overcommit"}
    assert {"name", "summary", "parameters"} == set(got["items"][0])
    refused(fedfleet("list", "policy"), "did you mean 'policies'")


def test_every_kind_can_be_listed_and_is_named_in_the_help(fedfleet):
    words = " ".join(fedfleet("list", "--help")[1].split())
    for kind in KINDS:
        assert fedfleet("list", kind)[0] == 0
        assert kind in words


def test_people_see_type_and_default(fedfleet):
    _, out, _ = fedfleet("list", "policies")
    assert "deadline: Commit what has arrived" in out
    assert [line.split() for line in out.splitlines() if line.startswith("    seconds")] == [
        ["seconds", "float", ">", "0", "default", "120.0"],
        ["seconds", "float", ">", "0", "default", "60.0"],
    ]


def test_parts_of_third_parties_are_listed(fedfleet):
    package.register("selectors", "first_come", "tests.app.api.test_run:first_come")
    items = json.loads(fedfleet("list", "selectors", "--json")[1])["items"]
    assert [i["parameters"] for i in items if i["name"] == "first_come"] == [
        {"skip": {"type": "int", "required": False, "default": 0}}
    ]


def test_tasks_say_whether_their_data_are_here(fedfleet, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    items = {i["name"]: i for i in json.loads(fedfleet("list", "tasks", "--json")[1])["items"]}
    assert set(items["digits_cnn"]) == {"name", "summary", "parameters", "data_here"}
    assert items["digits_cnn"]["data_here"] is True and items["cifar_cnn"]["data_here"] is False
    assert "on CIFAR-10. (data not here)" in fedfleet("list", "tasks")[1]


def test_kinds_are_named_where_none_or_a_wrong_one_is_given(fedfleet):
    refused(fedfleet("list"), *KINDS)
    refused(fedfleet("list", "plan"), *KINDS)
    refused(fedfleet("list", "policy"), "did you mean 'policies'", *KINDS)


def test_what_people_call_a_kind_leads_to_it(fedfleet):
    refused(fedfleet("list", "methods"), "fedfleet list algorithms")


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
    assert out.count("already there") == 2 and out.count(SHA) == 2 and "hash not known" in out and "terms of a test" in out
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


def test_the_version_is_the_packages(fedfleet):
    assert fedfleet("version") == (0, f"fedfleet {package.__version__}\n", "")
    assert json.loads(fedfleet("version", "--json")[1]) == {"version": package.__version__}
