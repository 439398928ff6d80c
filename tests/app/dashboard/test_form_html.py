"""The form shows the program's own sentence beside the field, with the cure as a button."""

from fedfleet.app.dashboard.form_html import form, form_messages, form_status
from fedfleet.app.dashboard.new_run_form import FIELDS, FormCheck, Mistake


def test_every_field_has_a_place_for_its_sentence():
    said = form({"name": "<b>", "toml": "</textarea>"}, {"tasks": ["a"]}, can_start=True)
    for field in FIELDS:
        assert f'id="m-{field.key.replace(".", "-")}"' in said
    assert "&lt;b&gt;" in said and said.count("</textarea>") == 1 and '<datalist id="k-tasks">' in said
    assert "fedfleet dashboard FOLDER" in form({}, {}, can_start=False)


def test_a_sentence_has_its_cure_as_a_button():
    said = form_messages(FormCheck({}, None, {"pace.use": Mistake("no policies part is called 'x'", "x", "<deadline>")}))
    assert 'data-field="f-pace-use" data-wrong="x" data-right="&lt;deadline&gt;"' in said
    assert "No policies part is called" in said and "1 field to mend" in said
    assert said.count("hx-swap-oob") == len(FIELDS) + 3


def test_nothing_to_mend():
    assert "default" in form_status(FormCheck({}))
