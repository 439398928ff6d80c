"""Tables for people: units on every number, words where there is none."""

import re

from fedfleet.app.studies.grid import study_tables
from fedfleet.app.studies.grid.analysis_results import arm_rows
from fedfleet.app.studies.grid.study_tables import align_table, latex, markdown, results_table
from tests.app.studies.tables import aims, asked, ran

A, B = "algorithm.lr=0.05", "algorithm.lr=0.1"


def shown(accuracies, **more):
    study = asked(seeds=len(accuracies) // 2, baseline=A)
    seen = aims(**more)
    return results_table(arm_rows(study, ran(study, accuracies), seen), A, seen)


def test_a_row_in_words():
    header, (first, second) = shown([0.5, 0.6, 0.7, 0.7, 0.81, 0.9], target=0.65)
    assert header == [
        "arm", "runs", "accuracy at the end", "accuracy after 20 s", "virtual time", "sent up", "sent down",
        "median time to 65.0 %", f"against {A}",
    ]  # fmt: skip
    assert first[:3] == [A, "3", "60.0 % [35.2 % to 84.8 %]"]
    assert first[4:] == ["20 s", "1.0 kB", "2.0 kB", "not by half (2 of 3 never)", "the baseline"]
    assert second[7] == "20 s"
    assert re.fullmatch(r"\+20\.3 points \[\+\d.* to \+.*\], p = 0\.\d{3}|.*p < 0\.001", second[8])


def test_failures_and_single_seeds_say_so():
    _, (_, second) = shown([0.5, 0.7])
    assert second[7] == "+20.0 points (one seed)"
    _, (_first, second) = shown([0.5, 0.6, None, None])
    assert second[:3] == [B, "2, 2 failed", "none"]
    assert second[-1] == "no common seed"
    assert shown([None, None], equal_time=None)[0][3] == "virtual time"


def test_every_line_has_all_columns_in_every_format():
    header, body = ["a|b", "50 % & more"], [["x_1 | y", "{z}"], ["", "~"]]
    lines = markdown(header, body, "name", "Words.").splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 4
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in table)
    text = latex(header, body)
    assert r"50 \% \& more" in text and r"x\_1 \textbar{} y & \{z\} \\" in text
    assert text.count(r"\\") == 3
    assert len({line.index("50") if "50" in line else None for line in align_table(header, body).splitlines()[:1]}) == 1


def test_names_of_arms_break_no_table():
    odd = ["[0.5] a", "*", "a\\|b", "<script>x</script>", "`b`"]
    md = markdown(["arm", "runs"], [[name, "1"] for name in odd], "<b>", "A *wins*.")
    assert "<script" not in md.replace("\\<", "") and "# \\<b>" in md and "A \\*wins\\*." in md
    assert r"a\\\|b" in md, "a backslash of the name does not swallow that of the cell"
    tex = latex(["arm", "runs"], [[name, "1"] for name in odd])
    for line in tex.splitlines():
        assert not line.startswith(("[", "*")), "the line before would take it for its own option"


def test_a_difference_that_is_alike_on_every_seed_is_told_with_its_p():
    pair = {"difference": 0.1, "low": None, "high": None, "p": 0.25, "p_holm": 0.25, "n": 3}
    row = {"arm": "b", "against": pair}
    assert study_tables._against(row, "a") == "+10.0 points on each seed, p = 0.250"
    assert study_tables._against({"arm": "b", "against": {**pair, "p_holm": None}}, "a") == "+10.0 points (one seed)"
