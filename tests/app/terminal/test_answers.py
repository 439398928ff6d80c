"""Answers for programs and for people."""

import json

import pytest

from fedfleet.app.terminal.answers import AS_JSON, LOG_LINES, Answer, print_answer, say, write_page
from fedfleet.core.errors import BadInput


def test_one_answer_in_two_forms(capsys):
    result = Answer({"rounds": 3}, lambda a: f"{a['rounds']} rounds", ["no more"])
    print_answer(result)
    before = AS_JSON.set(True)
    print_answer(result)
    AS_JSON.reset(before)
    printed = capsys.readouterr()
    text, values = printed.out.splitlines()
    assert text == "3 rounds" and json.loads(values) == {"rounds": 3} == result.to_dict()
    assert printed.err == "fedfleet: no more\n" * 2
    assert print_answer(Answer({}, "failed", exit_code=1)) == 1 and print_answer(Answer({}, "fine")) == 0


def test_remarks_stay_off_standard_output(capsys):
    say("listening")
    assert capsys.readouterr() == ("", "fedfleet: listening\n")


def test_a_page_that_cannot_be_written_names_option_and_cure(tmp_path):
    write_page("--picture", tmp_path / "a.html", "<p>")
    assert (tmp_path / "a.html").read_text() == "<p>"
    with pytest.raises(BadInput, match=r"--picture: cannot write .*b.html: .*; give a file in a folder that exists"):
        write_page("--picture", tmp_path / "none/b.html", "<p>")


def test_remarks_are_lines_of_json_where_logs_are_asked_for_so(capsys):
    before = LOG_LINES.set(True)
    say("WARNING: too few")
    say("listening")
    say("no such task", "error")
    LOG_LINES.reset(before)
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(one["level"], one["message"]) for one in said] == [
        ("warning", "too few"),
        ("info", "listening"),
        ("error", "no such task"),
    ]
