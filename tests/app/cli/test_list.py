"""`fedfleet list`: the parts, for programs and for people."""

import json

import fedfleet as package
from fedfleet.core.registry import KINDS
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
