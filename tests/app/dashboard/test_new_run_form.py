"""The form of a new run: several mistakes at once, each beside its field, with its cure."""

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.app.dashboard.new_run_form import KEYS, NAME, TOML, check_form, fill_form, locate_mistake, refuse_foreign
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput

GOOD = {
    "name": "mine",
    "task.use": "digits_logreg",
    "world.clients": "30",
    "pace.use": "deadline",
    "pace.cohort": "4",
    "pace.seconds": "60",
}


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
    other = check_form(fill_form(spec.table(), "again") | {"pace.use": "readiness", "pace.seconds": ""}, tmp_path, tmp_path)
    assert not other.mistakes and other.spec is not None and other.spec.pace["use"] == "readiness"


@settings(max_examples=15, deadline=None)
@given(st.dictionaries(st.sampled_from([NAME, TOML, *KEYS]), st.text(max_size=40)))
def test_no_form_trips_it(tmp_path_factory, values):
    root = tmp_path_factory.getbasetemp()
    result = check_form(values, root, root)
    assert (result.spec is None) == bool(result.mistakes)


def table(**devices):
    return {"task": {"use": "digits_mlp"}, "world": {"devices": devices}, "algorithm": {"head": "fc.*"}}


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x.json",
        "~/x.json",
        "flash:/etc/passwd",
        "secret.json",
        "here",
        "flhetbench:a#/etc/b",
        "c:x",
        "runs/../a",
        "a\0b",
    ],
)
def test_files_elsewhere_are_refused(tmp_path, path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "here").write_text("")
    with pytest.raises(BadInput, match=r"world\.devices\.(path|base)"):
        refuse_foreign(table(use="dpgmm", base=path), tmp_path / "runs", tmp_path)


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "secret.json").write_text("")
    (tmp_path / "runs" / "link.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(BadInput, match="outside"):
        refuse_foreign(table(use="device_file", path="runs/link.json"), tmp_path / "runs", tmp_path)


@pytest.mark.parametrize("base", ["builtin", "builtin:", "fsreal", "flhetbench:", "runs/mine.json", "flash:runs/a"])
def test_bases_by_name_and_files_of_the_runs_are_fine(tmp_path, base):
    (tmp_path / "runs").mkdir()
    refuse_foreign(table(use="dpgmm", base=base), tmp_path / "runs", tmp_path)


@pytest.mark.parametrize(
    "spec",
    [{"task": {"use": "own"}}, {"run": {"execute": "ray"}}, {"run": {"ray_address": "auto"}}, {"a": [{"path": "/x"}]}],
)
def test_own_code_and_other_machines_are_refused(tmp_path, spec):
    with pytest.raises(BadInput):
        refuse_foreign(spec, tmp_path, tmp_path)
