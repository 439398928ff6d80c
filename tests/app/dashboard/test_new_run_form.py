"""The form of a new run: several mistakes at once, each beside its field, with its cure."""

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.app.dashboard.new_run_form import KEYS, NAME, TOML, asked, filled, placed
from fedfleet.app.spec import resolve

GOOD = {
    "name": "mine",
    "task.use": "digits_logreg",
    "world.clients": "30",
    "pace.use": "deadline",
    "pace.cohort": "4",
    "pace.seconds": "60",
}


def test_a_good_form_is_a_spec(tmp_path):
    found = asked(GOOD | {"toml": "[world]\ndata = { use = 'dirichlet', alpha = 0.5 }"}, tmp_path, tmp_path)
    assert not found.mistakes and found.spec is not None
    assert found.spec.pace["seconds"] == 60 and found.spec.world["data"]["alpha"] == 0.5
    assert resolve(tomllib.loads(found.spec.toml()), "mine").digest == found.spec.digest


def test_several_mistakes_each_beside_its_field(tmp_path):
    wrong = GOOD | {
        "name": "a/b",
        "world.devices.use": "dpgm",
        "pace.cohort": "x",
        "toml": "[pace]\nsecnds = 3\n[world.devices]\nkinds = 50",
    }
    found = asked(wrong, tmp_path, tmp_path)
    assert set(found.mistakes) == {NAME, "world.devices.use", "pace.cohort", TOML} and found.spec is None
    assert found.mistakes["world.devices.use"].right == "dpgmm"
    assert (found.mistakes[TOML].wrong, found.mistakes[TOML].right) == ("secnds", "seconds")


@pytest.mark.parametrize(
    ("sentence", "at"),
    [
        (
            "pace: 'deadline' wants 400 clients at once, which is larger than the fleet; lower pace.cohort or raise world.clients",
            "pace.cohort",
        ),
        ("pace has no key 'seconds'; did you mean 'cohort'?", "pace.seconds"),
        ("pace has no key 'odd'", TOML),
        ("pace.cohort = 'x': input should be a valid integer", "pace.cohort"),
        ("task: the data are not here", "task.use"),
        ("world.devices needs the key 'path'", TOML),  # that field is empty
        ("something else", TOML),
    ],
)
def test_sentences_find_their_field(sentence, at):
    assert placed(sentence, GOOD)[0] == at


def test_taken_names_and_foreign_files_are_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    assert "already" in asked(GOOD, tmp_path, tmp_path).mistakes[NAME].text
    found = asked(
        GOOD | {"name": "new", "world.devices.use": "device_file", "toml": "[world.devices]\npath = '/etc/passwd'"},
        tmp_path,
        tmp_path,
    )
    assert found.spec is None and any("outside the folder" in m.text for m in found.mistakes.values())


def test_a_run_can_be_asked_for_again(tmp_path):
    spec = resolve(
        {
            "seed": 3,
            "pace": {"use": "deadline", "seconds": 12.5},
            "world": {"data": {"use": "dirichlet", "alpha": 0.3}},
        },
        "a",
    )
    found = asked(filled(spec.table(), "again"), tmp_path, tmp_path)
    assert not found.mistakes and found.spec is not None and found.spec.digest == spec.digest
    other = asked(filled(spec.table(), "again") | {"pace.use": "readiness", "pace.seconds": ""}, tmp_path, tmp_path)
    assert not other.mistakes and other.spec is not None and other.spec.pace["use"] == "readiness"


@settings(max_examples=15, deadline=None)
@given(st.dictionaries(st.sampled_from([NAME, TOML, *KEYS]), st.text(max_size=40)))
def test_no_form_trips_it(tmp_path_factory, values):
    root = tmp_path_factory.getbasetemp()
    found = asked(values, root, root)
    assert (found.spec is None) == bool(found.mistakes)
