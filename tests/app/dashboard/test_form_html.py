"""The form shows menus with their settings, and the program's own sentence beside the field, with the cure as a button."""

import re

from fedfleet.app.dashboard.form_html import form, form_messages, form_status, part_list, part_menu
from fedfleet.app.dashboard.new_run_form import FormCheck, Mistake

DEADLINE = {"pace.use": "deadline", "pace.if_few": "wait"}


def test_every_field_has_a_place_for_its_sentence():
    said = form({"name": "<b>", "toml": "</textarea>"}, [("runs", [("<i>", "<i>")])], "", can_start=True)
    keys = set(re.findall(r'<(?:input|select|textarea) id="f-[^"]*" name="([^"]+)"', said))
    assert {"name", "seed", "world.clients", "task.use", "pace.cohort", "stop.rounds", "run.threads", "edge.use", "toml"} <= keys
    for key in keys:
        assert f'id="m-{re.sub("[^a-z0-9]", "-", key)}"' in said
    assert "&lt;b&gt;" in said and said.count("</textarea>") == 1 and "<i>" not in said
    assert "fedfleet dashboard FOLDER" in form({}, [], "", can_start=False)


def test_a_menu_has_all_parts_with_their_sentences():
    said = part_menu("pace", "policies", DEADLINE, "readiness")
    assert '<option value="deadline" selected>deadline: Commit what has arrived after a fixed time' in said
    assert said.count("<option value=") == 7 + 3  # the policies, and the choices of if_few
    assert '<option value="wait" selected>' in said


def test_fields_have_the_type_the_limits_and_the_default_of_the_signature():
    said = part_menu("pace", "policies", DEADLINE, "readiness")
    assert re.search(r'name="pace.cohort" [^>]*type="number" step="1" min="1"[^>]* placeholder="20"', said)
    assert re.search(r'name="pace.min_share" [^>]*step="any" min="0" max="1"', said)
    assert "float &gt; 0, default 120" in said
    algorithm = part_menu("algorithm", "algorithms", {}, "fedavg")
    assert '<input type="checkbox" id="f-algorithm-feedback" name="algorithm.feedback"' in algorithm and "default no" in algorithm


def test_what_is_set_is_in_sight():
    codecs = {"algorithm.use": "fedavg", "algorithm.up[0].use": "int8"}
    folded, open_ = part_menu("algorithm", "algorithms", {}, "fedavg"), part_menu("algorithm", "algorithms", codecs, "fedavg")
    assert "<details open>" not in folded and "<details open>" in open_
    assert 'name="algorithm.up[1].use"' in part_list("algorithm.up", "codecs", codecs)


def test_a_part_that_is_not_registered_is_shown_as_such():
    assert "not a registered part" in part_menu("task", "tasks", {"task.use": "own<"}, "digits_cnn")


def test_a_sentence_has_its_cure_as_a_button():
    mistakes = {"pace.use": Mistake("no policies part is called 'x'", "x", "<deadline>")}
    said = form_messages(FormCheck({"pace.use": "x", "name": "a"}, None, mistakes, "[pace]\n<x>"))
    assert 'data-field="f-pace-use" data-wrong="x" data-right="&lt;deadline&gt;"' in said
    assert "No policies part is called" in said and "1 field to mend" in said and "&lt;x&gt;" in said
    assert said.count("hx-swap-oob") == 2 + 2  # a place for each field, how much is left, the spec as a file


def test_nothing_to_mend():
    assert "default" in form_status(FormCheck({}))
