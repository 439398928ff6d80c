"""The form of a new run: several mistakes at once, each beside its field, with its cure."""

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.app.dashboard.example_specs import EXAMPLES
from fedfleet.app.dashboard.new_run_form import NAME, TOML, check_form, fill_form, locate_mistake
from fedfleet.app.spec import resolve

GOOD = {
    "name": "mine",
    "task.use": "digits_logreg",
    "world.clients": "30",
    "pace.use": "deadline",
    "pace.cohort": "4",
    "pace.seconds": "60",
}


KEYS = (
    "seed",
    "task.use",
    "world.clients",
    "world.devices.use",
    "world.devices.base",
    "algorithm.lr",
    "algorithm.up[0].use",
    "stop.rounds",
)


def test_a_good_form_is_a_spec(tmp_path):
    result = check_form(GOOD | {"toml": "[world]\ndata = { use = 'dirichlet', alpha = 0.5 }"}, tmp_path, tmp_path)
    assert not result.mistakes and result.spec is not None
    assert result.spec.pace["seconds"] == 60 and result.spec.world["data"]["alpha"] == 0.5
    assert resolve(tomllib.loads(result.spec.toml()), "mine").digest == result.spec.digest


def test_several_mistakes_each_beside_its_field(tmp_path):
    wrong = GOOD | {
        "name": "a/b",
        "world.devices.use": "dpgm",
        "pace.cohort": "x",
        "toml": "[pace]\nsecnds = 3\n[world.devices]\nkinds = 50",
    }
    result = check_form(wrong, tmp_path, tmp_path)
    assert set(result.mistakes) == {NAME, "world.devices.use", "pace.cohort", TOML} and result.spec is None
    assert result.mistakes["world.devices.use"].right == "dpgmm"
    assert (result.mistakes[TOML].wrong, result.mistakes[TOML].right) == ("secnds", "seconds")


@pytest.mark.parametrize(
    ("sentence", "at"),
    [
        (
            "pace: 'deadline' needs 400 clients at once, more than the fleet; lower pace.cohort or raise world.clients",
            "pace.cohort",
        ),
        ("pace has no key 'seconds'; did you mean 'cohort'?", "pace.seconds"),
        ("pace has no key 'odd'", TOML),
        ("pace.cohort = 'x': must be an integer", "pace.cohort"),
        ("task: the data are not here", "task.use"),
        ("world.devices needs the key 'path'", TOML),  # that field is empty
        ("something else", TOML),
    ],
)
def test_sentences_find_their_field(sentence, at):
    assert locate_mistake(sentence, GOOD)[0] == at


def test_taken_names_and_foreign_files_are_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    assert "already" in check_form(GOOD, tmp_path, tmp_path).mistakes[NAME].text
    result = check_form(
        GOOD | {"name": "new", "world.devices.use": "device_file", "toml": "[world.devices]\npath = '/etc/passwd'"},
        tmp_path,
        tmp_path,
    )
    assert result.spec is None and any("outside the folder" in m.text for m in result.mistakes.values())


def test_a_run_can_be_asked_for_again(tmp_path):
    spec = resolve(
        {
            "seed": 3,
            "pace": {"use": "deadline", "seconds": 12.5},
            "world": {"data": {"use": "dirichlet", "alpha": 0.3}},
        },
        "a",
    )
    result = check_form(fill_form(spec.table(), "again"), tmp_path, tmp_path)
    assert not result.mistakes and result.spec is not None and result.spec.digest == spec.digest
    assert tomllib.loads(result.toml) == {
        "seed": 3, "pace": {"use": "deadline", "seconds": 12.5}, "world": {"data": {"use": "dirichlet", "alpha": 0.3}},
    }  # fmt: skip
    other = check_form(fill_form(spec.table(), "again") | {"pace.use": "readiness", "pace.seconds": ""}, tmp_path, tmp_path)
    assert not other.mistakes and other.spec is not None and other.spec.pace["use"] == "readiness"


@settings(max_examples=15, deadline=None)
@given(st.dictionaries(st.sampled_from([NAME, TOML, *KEYS]), st.text(max_size=40)))
def test_no_form_trips_it(tmp_path_factory, values):
    root = tmp_path_factory.getbasetemp()
    result = check_form(values, root, root)
    assert (result.spec is None) == bool(result.mistakes)


def test_a_form_holds_parts_inside_parts_and_lists_of_them(tmp_path):
    table = {
        "pace": {"use": "overcommit", "factor": 1.5, "policy": {"use": "deadline", "cohort": 4}},
        "algorithm": {"use": "fedprox", "mu": 0.2, "up": [{"use": "topk", "share": 0.1}, {"use": "gzip"}], "feedback": True},
        "choose": {"use": "only", "ids": [1, 2], "selector": {"use": "oort"}},
        "world": {"clients": 30, "faults": [{"use": "lossy"}, {"use": "delayed"}], "split": [8, 1, 1]},
        "override": [{"clients": [0], "algorithm": {"lr": 0.5}}],
    }
    spec = resolve(table, "a")
    values = fill_form(spec.table(), "again")
    assert values["pace.policy.cohort"] == "4" and values["algorithm.up[0].share"] == "0.1" and values["choose.ids"] == "[1, 2]"
    assert list(tomllib.loads(values[TOML])) == ["override"]
    result = check_form(values, tmp_path, tmp_path)
    assert result.spec is not None and result.spec.digest == spec.digest
    assert resolve(tomllib.loads(result.toml), "again").digest == spec.digest


@pytest.mark.parametrize("key", EXAMPLES)
def test_examples_fill_the_form_and_nothing_is_left_over(tmp_path, key):
    values = fill_form(EXAMPLES[key].table, "new")
    result = check_form(values, tmp_path, tmp_path)
    assert values[TOML] == "" and result.spec is not None and result.spec.digest == resolve(EXAMPLES[key].table, "new").digest


def test_settings_of_a_part_that_is_not_chosen_do_not_count(tmp_path):
    result = check_form(GOOD | {"pace.use": "readiness", "pace.seconds": "60"}, tmp_path, tmp_path)
    assert not result.mistakes and result.spec is not None and "seconds" not in result.spec.pace


def test_a_value_beyond_its_limit_has_the_limit_as_its_cure(tmp_path):
    result = check_form(GOOD | {"pace.cohort": "0"}, tmp_path, tmp_path)
    assert result.mistakes["pace.cohort"].right == "1"
