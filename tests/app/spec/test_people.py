"""People and clients: the number of clients that a spec does not give, and what permits other numbers."""

import json
import tomllib

import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import load_spec, resolve
from fedfleet.app.spec.people import DEFAULT_CLIENTS, count_people, counting_note, deals_by_owner, permit_numbers
from fedfleet.app.spec.table_checks import build_part
from fedfleet.core.errors import BadInput
from tests.app.specs import refused, written

TASK = {"use": "phone_watch_cnn", "synthetic": True, "samples": 460, "hidden": 4}
PEOPLE = 23
MERGED = {"use": "by_owner", "merge_owners": True}
FLIPPED = {"use": "label_flip", "of": {"use": "by_owner"}, "share": 0.2}

FILE = """
task = { use = "phone_watch_cnn", synthetic = true, samples = 460, hidden = 4 }
world.data = "by_owner"
pace.cohort = 4
stop.rounds = 1
"""


def spec_of(**world):
    return resolve({"task": TASK, "world": {"data": "by_owner", **world}, "stop": {"rounds": 2}})


@pytest.mark.parametrize(
    ("world", "clients"),
    [
        ({}, PEOPLE),
        ({"data": FLIPPED}, PEOPLE),
        ({"unseen": 3}, PEOPLE - 3),
        ({"data": "iid"}, DEFAULT_CLIENTS),
        ({"data": {"use": "by_owner", "merge_owners": True}}, PEOPLE),
        ({"clients": 7}, 7),
    ],
    ids=str,
)
def test_without_a_number_the_people_are_counted(world, clients):
    assert spec_of(**world).world["clients"] == clients
    assert f"clients = {clients}\n" in spec_of(**world).toml()


def test_people_are_counted_once_for_all_runs(monkeypatch):
    first = count_people(spec_of())
    monkeypatch.setattr("fedfleet.app.spec.people.build_part", None)
    assert count_people(spec_of()) is first
    assert not counting_note(spec_of()), "nothing that took so short is told"
    assert not counting_note(spec_of(data="iid"))


def test_the_run_that_follows_reads_no_data_again(monkeypatch):
    spec = spec_of(unseen=2)
    parts = []

    def build(kind, table, provide=None):
        parts.append(kind)
        return build_part(kind, table, provide)

    monkeypatch.setattr("fedfleet.app.spec.people.build_part", build)
    assert assemble(spec).plan.clients == PEOPLE - 2 and "tasks" not in parts
    assert assemble(spec).plan.clients == PEOPLE - 2 and parts == ["tasks"], "the data are not kept for ever"


def test_a_long_count_is_told(monkeypatch):
    monkeypatch.setattr("fedfleet.app.spec.people._LONG", 0.0)
    assert "phone_watch_cnn" in counting_note(spec_of()) and "23 people" in counting_note(spec_of())


def test_privacy_and_users_go_by_the_counted_number():
    private = {"task": TASK, "world": {"data": "by_owner"}, "algorithm": {"private": {"epsilon": 8.0, "delta": 0.5}}}
    assert resolve(private).algorithm["private"]["delta"] == 0.5
    del private["algorithm"]["private"]["delta"]
    assert resolve(private).algorithm["private"]["delta"] <= PEOPLE**-1.1


@pytest.mark.parametrize("users", [{"use": "households", "devices": [2, 5]}, {"use": "households", "loners": 0.3}])
def test_with_users_there_are_as_many_users_as_people(users):
    spec = spec_of(users=users, min_samples=1)
    setup = assemble(spec)
    assert spec.world["clients"] > PEOPLE and setup.plan.clients == spec.world["clients"]
    assert str(setup.people) == "23 people as 23 users"
    assert len(setup.world.users) == PEOPLE


def test_groups_that_are_not_the_people_are_refused_and_merged_if_permitted():
    with pytest.raises(BadInput, match=r"world\.users.* 10 users.*23 people.*merge_owners = true"):
        assemble(spec_of(users={"use": "groups", "count": 10}))
    merged = spec_of(
        users={"use": "groups", "count": 10}, clients=20, min_samples=1, data={"use": "by_owner", "merge_owners": True}
    )
    assert str(assemble(merged).people) == "23 people merged into 10 users"
    assert spec_of(users={"use": "groups", "count": PEOPLE}).world["clients"] == DEFAULT_CLIENTS


def test_data_that_name_nobody_are_refused_before_a_number_is_guessed():
    with pytest.raises(BadInput, match="by_owner needs to know who made each sample"):
        resolve({"task": "digits_logreg", "world": {"data": "by_owner"}})


def test_permissions_are_not_part_of_what_a_run_is():
    plain = spec_of()
    for data in ({"use": "by_owner", "split_owners": True}, {"use": "by_owner", "merge_owners": True, "split_owners": True}):
        assert spec_of(data=data).digest == plain.digest
    assert spec_of(clients=22).digest != plain.digest
    assert spec_of(data=FLIPPED).digest == spec_of(data=permit_numbers(FLIPPED)).digest
    assert resolve(tomllib.loads(spec_of(data=permit_numbers(FLIPPED)).toml())).world["data"]["of"]["merge_owners"]


def test_the_folder_of_an_older_run_keeps_its_number(tmp_path):
    older = spec_of(clients=100).toml().replace("merge_owners = false\n", "").replace("split_owners = false\n", "")
    assert "owners" not in older.replace("by_owner", "")
    path = tmp_path / "spec.toml"
    path.write_text(older.replace("min_samples = 5", "min_samples = 1"))
    with pytest.raises(BadInput, match=r"world\.clients = 100.*split_owners = true"):
        assemble(load_spec(path))
    (tmp_path / "run.db").touch()
    spec = load_spec(path)
    assert spec.digest == spec_of(clients=100, min_samples=1).digest
    assert str(assemble(spec).people) == "23 people split into 100 clients"
    again = resolve(tomllib.loads(spec.toml()))
    assert assemble(again).plan.clients == 100, "its text means the same in another process"


def test_parts_inside_parts_deal_by_owner_too():
    assert deals_by_owner(FLIPPED) and not deals_by_owner({"use": "label_flip", "of": {"use": "iid"}})


def test_the_check_counts_people_and_clients_apart(fedfleet, tmp_path):
    spec = written(tmp_path, FILE)
    assert "23 people as 23 clients" in fedfleet("run", spec, "--check")[1]
    words = ("world.data.merge_owners=true", "world.clients=10")
    assert "23 people merged into 10 clients" in fedfleet("run", spec, *words, "--check")[1]
    answer = json.loads(fedfleet("run", spec, *words, "--check", "--json")[1])
    assert (answer["people"], answer["clients"]) == (23, 10)


@pytest.mark.parametrize(("clients", "key"), [(500, "split_owners"), (5, "merge_owners")])
def test_another_number_is_refused_on_the_command_line(fedfleet, tmp_path, clients, key):
    spec, words = written(tmp_path, FILE), (f"world.clients={clients}", "world.min_samples=1")
    refused(fedfleet("run", spec, *words, "--check"), f"world.clients = {clients}", "23 people", f"{key} = true")
    refused(fedfleet("serve", spec, *words, "--out", tmp_path / "served"), "23 people", key)
    assert not (tmp_path / "served").exists()
