"""Reading spec files, and `key=value` overrides."""

import os
import subprocess
import sys

import pytest

from fedfleet.app.spec import apply_overrides, load_spec, read_table, set_values
from fedfleet.core.errors import BadInput


def test_words_override_by_dotted_key():
    table = apply_overrides({"pace": {"cohort": 5}}, ["pace.cohort=7", "algorithm.use=fedprox", "world.data.alpha=0.5", "seed=3"])
    assert table == {
        "pace": {"cohort": 7},
        "algorithm": {"use": "fedprox"},
        "world": {"data": {"alpha": 0.5}},
        "seed": 3,
    }


def test_in_a_run_folder_a_key_that_is_newer_than_the_run_means_what_was_done_then(tmp_path):
    text = '[pace]\nuse = "overcommit"\npolicy = { use = "semi_async", period = 9.0 }\n'
    (tmp_path / "spec.toml").write_text(text)
    assert load_spec(tmp_path / "spec.toml").pace["policy"]["if_few"] == "wait"
    (tmp_path / "run.db").write_text("")
    of_run = load_spec(tmp_path / "spec.toml")
    assert of_run.pace["policy"]["if_few"] is None and "if_few" not in of_run.table()["pace"]["policy"]


def test_files_that_cannot_be_read(tmp_path):
    for path, says in ((tmp_path / "none.toml", "no spec file"), (tmp_path, "is a folder")):
        with pytest.raises(BadInput, match=says):
            load_spec(path)
    broken = tmp_path / "broken.toml"
    broken.write_text("seed = = 3")
    with pytest.raises(BadInput, match="not valid TOML"):
        load_spec(broken)
    with pytest.raises(BadInput, match="write KEY=VALUE"):
        load_spec(_fine(tmp_path), ["cohort"])


def _fine(folder):
    path = folder / "fine.toml"
    path.write_text("seed = 1")
    return path


def test_a_spec_is_named_after_its_file(tmp_path):
    assert load_spec(_fine(tmp_path)).name == "fine"


def test_words_leave_the_table_they_were_given_alone():
    table = {"pace": {"cohort": 5}}
    apply_overrides(table, ["pace.cohort=7"])
    assert table == {"pace": {"cohort": 5}}


def test_a_bare_name_stands_for_its_part():
    assert apply_overrides({"pace": "deadline"}, ["pace.seconds=9"]) == {"pace": {"use": "deadline", "seconds": 9}}


@pytest.mark.parametrize("word", ["cohort", "=3", "pace..cohort=3", "seed.x=3"])
def test_words_that_are_no_overrides(word):
    with pytest.raises(BadInput, match=r"cohort|=3"):
        apply_overrides({"seed": 1}, [word])


@pytest.mark.parametrize(
    ("table", "words", "got"),
    [
        ({"pace": {"use": "deadline", "seconds": 9}}, ["pace.use=readiness"], {"use": "readiness"}),
        ({"pace": {"use": "deadline", "seconds": 9}}, ["pace.use=deadline"], {"use": "deadline", "seconds": 9}),
        ({"pace": {"cohort": 5}}, ["pace.use=readiness"], {"use": "readiness", "cohort": 5}),
        ({"pace": {"cohort": 5}}, ["pace.use=deadline"], {"use": "deadline"}),
        ({"pace": {"cohort": 5}}, ["pace.cohort=7", "pace.use=deadline"], {"use": "deadline", "cohort": 7}),
        ({"pace": "readiness"}, ["pace.cohort=7", "pace=deadline"], {"use": "deadline", "cohort": 7}),
        ({}, ["pace.policy.cohort=3", "pace.policy.use=deadline", "pace.use=overcommit"],
         {"use": "overcommit", "policy": {"use": "deadline", "cohort": 3}}),
    ],
)  # fmt: skip
def test_another_part_has_none_of_the_settings_of_the_one_before(table, words, got):
    assert apply_overrides(table, words)["pace"] == got


def test_numbers_with_thousands_of_digits_are_no_numbers(tmp_path):
    path = tmp_path / "long.toml"
    path.write_text(f"seed = {'9' * 5000}")
    with pytest.raises(BadInput, match="not valid TOML"):
        load_spec(path)
    assert apply_overrides({}, [f"seed={'9' * 5000}"])["seed"] == "9" * 5000


def test_values_under_dotted_keys_follow_the_rules_of_words():
    table = {"pace": "readiness", "stop": {"rounds": 3}}
    values = {"pace.cohort": 4, "stop.rounds": 5, "world.split": [1, 0, 0]}
    words = ["pace.cohort=4", "stop.rounds=5", "world.split=[1, 0, 0]"]
    assert set_values(table, values) == apply_overrides(table, words)
    assert table == {"pace": "readiness", "stop": {"rounds": 3}}, "what was given stays as it is"
    shared = [1, 2]
    set_values({}, {"world.split": shared})["world"]["split"].append(3)
    assert shared == [1, 2]
    with pytest.raises(BadInput, match=r"'pace\.\.seconds' is not an override"):
        set_values({}, {"pace..seconds": 3})
    with pytest.raises(BadInput, match="'rounds' holds a value, not a table"):
        set_values(table, {"stop.rounds.more": 1})


def test_line_ends_and_the_mark_of_other_editors_change_nothing(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_bytes(b"\xef\xbb\xbf# \xc3\x9cbung\r\nseed = 3\r\n\r\n[stop]\r\nrounds = 2\r\n")
    assert read_table(path) == {"seed": 3, "stop": {"rounds": 2}}


def test_files_are_the_same_whatever_the_language_of_the_machine(tmp_path):
    (tmp_path / "spec.toml").write_text("seed = 3  # Übung\n", encoding="utf-8")
    (tmp_path / "study.toml").write_text("seeds = 1  # Übung\nbase = {}\n", encoding="utf-8")
    code = (
        "from pathlib import Path\n"
        "from fedfleet.app.spec import read_table\n"
        "from fedfleet.app.studies.grid.study_file import read_study\n"
        "from fedfleet.app.pages.html import page\n"
        "from fedfleet.app.terminal.answers import write_page\n"
        "assert read_table('spec.toml') == {'seed': 3} and read_study('study.toml').seeds == (0,)\n"
        "write_page('--out', Path('page.html'), page('after 5\\u00a0s', []))\n"
    )
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "after 5\u00a0s" in (tmp_path / "page.html").read_text(encoding="utf-8")
