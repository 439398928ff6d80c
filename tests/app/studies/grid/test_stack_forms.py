"""The form of a study's stacks is chosen once."""

import pytest

from fedfleet.app.studies.grid.expansion import expand_study
from fedfleet.app.studies.grid.stack_forms import FILE, load_forms
from fedfleet.core.errors import BadInput
from fedfleet.executors.stacked.form_choice import Form
from tests.app.studies.tables import BASE, asked


def specs(**run):
    return [cell.spec for cell in expand_study(asked(base={**BASE, "run": run}))]


def test_what_was_chosen_first_stays_whatever_is_measured_later(tmp_path):
    stacked = specs(execute="stacked")
    asked_of = []

    def choose(name):
        return lambda spec: asked_of.append(spec) or Form(name, 2, {"x": 0.1})

    assert load_forms(tmp_path, stacked, choose("merged")) == [["merged", 2]] * 4
    assert len(asked_of) == 1, "runs of one shape are asked about once"
    assert load_forms(tmp_path, stacked[::-1], choose("loop")) == [["merged", 2]] * 4
    assert len(asked_of) == 1
    other = specs(execute="stacked", threads=2)
    assert load_forms(tmp_path, [*stacked, *other], choose("loop")) == [["merged", 2]] * 4 + [["loop", 2]] * 4


def test_runs_that_are_not_stacked_have_none_and_nothing_is_written(tmp_path):
    assert load_forms(tmp_path, specs(execute="inline")) == [None] * 4
    assert load_forms(tmp_path, specs(execute="stacked"), lambda spec: None) == [None] * 4
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("text", ["{", "[1]", "3"])
def test_a_damaged_file_is_named(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(BadInput, match=r"forms\.json cannot be read"):
        load_forms(tmp_path, specs(execute="stacked"))
