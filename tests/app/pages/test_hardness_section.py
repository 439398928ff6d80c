"""How hard the fleet is, in words."""

import re
from dataclasses import replace

import pytest

from fedfleet.app.fleets.hardness import Hardness, Measure, share_word
from fedfleet.app.pages.hardness_section import (
    fleets_section,
    hardness_section,
    hardness_sentence,
    measure_sides,
    observed,
    observed_by_run,
)
from fedfleet.app.pages.sides.comparison_words import capitalise
from fedfleet.app.pages.sides.page_runs import load_page_run
from fedfleet.app.runs import perform
from fedfleet.app.spec import resolve
from fedfleet.measure.montecarlo.settings import Settings
from tests.app.pages.report.logs import DEADLINE, READINESS, facts_of, journal
from tests.app.pages.sides.looks import made, side

LOG = journal([([0, 1], [2, 3])] * 10, clients=10)
HARD = Hardness({"DevMC-R": Measure(0.8, 0.0, 0.4), "InterMC-R": Measure(0.5, 0.01, 0.14)}, Settings(k=4, rounds=10, deadline=60.0))
LONG = Hardness({"DevMC-T": Measure(3.0, 0.0, 60.0), "InterMC-T": Measure(90.0, 1.0, 1800.0)}, Settings(k=4, rounds=10))


def test_what_the_run_saw_counts_nobody_beyond_an_equal_share():
    f = facts_of(LOG)
    assert observed(f, by_share=True) == 2 * 4 / 40, "two clients gave ten reports each, an equal share is four"
    assert observed(f, by_share=False) == 100.0


def test_the_verdict_is_a_word_with_its_figure_beside_what_was_seen():
    assert hardness_sentence(facts_of(LOG, hardness=HARD)) == (
        "This fleet is very hard under a deadline of 60 s: 14 % of fair work gets through (both together); the run saw 20 %."
    )
    said = hardness_sentence(facts_of(LOG, READINESS, hardness=LONG))
    assert said.startswith("This fleet is very hard to wait for: a round takes 30 min (both together), ")
    assert said.endswith("; the run saw 1.7 min.")


def test_bare_metrics_are_in_titles_only():
    text = re.sub(r"<[^>]*>", " ", "".join(hardness_section(facts_of(LOG, hardness=HARD))))
    assert "40 %" in text and "0.8" not in text.replace("DevMC-R 0.8 ", "") and "4 at a time, 10 rounds" in text


def test_what_cannot_be_measured_is_said():
    text = "".join(hardness_section(facts_of(LOG, hardness=Hardness({}, Settings(), "this run is paced by <x>"))))
    assert "Not measured: this run is paced by &lt;x&gt;." in text and hardness_section(facts_of(LOG)) == []


def test_a_run_that_uses_late_reports_is_told_so():
    spec = DEADLINE.replace("[pace]", "[pace]\nmax_staleness = 5")
    assert spec != DEADLINE
    assert "the run, which uses late reports too, saw" in hardness_sentence(facts_of(LOG, spec, hardness=HARD))


SPEC = {
    "seed": 1, "task": {"use": "digits_logreg"}, "pace": {"use": "deadline", "cohort": 3, "seconds": 120.0}, "stop": {"rounds": 4},
    "world": {"clients": 12, "model_bytes": 343_200_776, "devices": {"use": "dpgmm", "sigma": 0.7, "mean_mbps": 60.0}},
}  # fmt: skip


OTHERS = {
    "waiting": {"pace": {"use": "readiness", "cohort": 3}},
    "other": {"algorithm": {"use": "fedprox"}},
    "fast": {"world": {**SPEC["world"], "devices": {"use": "homogeneous", "mbps": 1000.0}}},
    "patient": {"pace": {**SPEC["pace"], "seconds": 600.0}},
}


def hardness_word(hard):
    return share_word(hard.plain["InterMC"] / hard.ideal)


@pytest.fixture(scope="module")
def looks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hard")
    specs = {"deadline": SPEC, **{name: {**SPEC, **keys} for name, keys in OTHERS.items()}}
    return {n: load_page_run(perform(resolve(t, "x"), folder / n).out, folder / "p.html") for n, t in specs.items()}


def test_a_deadline_is_told_in_shares_and_waiting_in_time(looks):
    sides = [side(name, looks[name], group="mild") for name in ("deadline", "waiting")]
    (share,), (wait,) = measure_sides(sides, by_deadline=True), measure_sides(sides, by_deadline=False)
    assert 0 <= share.plain["InterMC"] <= 1 and share.plain["InterMC"] == share.plain["DevMC"], "always reachable"
    assert wait.plain["DevMC"] > 20.0 and wait.observed == pytest.approx(looks["waiting"].end / looks["waiting"].metrics["rounds"])
    page = fleets_section(sides)
    assert "Deadline of 2\u00a0min" in page and "Waiting for all" in page and f"Mild: {hardness_word(share)}" in page
    assert "DevMC-R" in page and "DevMC-T" in page


def test_every_fleet_and_every_pacing_has_its_row_and_those_who_share_both_have_one(looks):
    sides = [side(name, looks[name]) for name in ("deadline", "other", "fast", "patient")]
    rows = measure_sides(sides, by_deadline=True)
    assert [(row.name, row.deadline) for row in rows] == [
        ("deadline and other", "2 min"), ("fast", "2 min"), ("patient", "10 min")
    ]  # fmt: skip
    first, fast, patient = (row.plain["InterMC"] for row in rows)
    assert first < min(fast, patient), "343 MB take 46 s each way at the mean of 60 Mbit/s, and 3 s at 1000"
    page = fleets_section(sides)
    assert "these fleets" in page and "Until the deadline of each" in page
    assert all(capitalise(f"{row.name}: {hardness_word(row)}") in page for row in rows)


def test_a_group_whose_sides_have_several_deadlines_names_them(looks):
    sides = [side(name, looks[name], group="mild") for name in ("deadline", "patient")]
    assert [row.name for row in measure_sides(sides, by_deadline=True)] == ["mild, deadline", "mild, patient"]
    assert "How hard is this fleet?" in fleets_section(sides)


def test_without_a_named_size_the_model_is_as_large_as_what_travelled(tmp_path):
    world = {key: value for key, value in SPEC["world"].items() if key != "model_bytes"}
    bare = load_page_run(perform(resolve({**SPEC, "world": world}, "x"), tmp_path / "run").out, tmp_path / "p.html")
    assert bare.model_bytes == 2600.0, "650 weights of 4 bytes"
    (result,) = measure_sides([side("bare", bare)], by_deadline=True)
    assert result.plain["InterMC"] > 0.4 and "How hard is this fleet?" in fleets_section([side("bare", bare)])


def test_what_a_run_saw_counts_nobody_beyond_an_equal_share():
    # 2 asked in 4 rounds of 4 people: a fair share is 2 reports each
    seen = [observed_by_run(made(used=used), by_share=True) for used in ((8, 0, 0, 0), (2, 2, 2, 2))]
    assert seen == [2 / 8, 1.0]


def test_other_pacings_have_no_section():
    assert fleets_section([side("a", made(table={"pace": {"use": "buffered"}}))]) == ""


def test_a_row_of_several_arms_has_no_arms_colour_and_all_have_one_name(looks):
    sides = [side(name, looks[name], colour=i + 1) for i, name in enumerate(("deadline", "other", "deadline"))]
    (row,) = measure_sides(sides, by_deadline=True)
    assert (row.name, row.colour) == ("all three arms", 0) and measure_sides(sides[:1], by_deadline=True)[0].colour == 1


def test_tables_stand_beside_each_other_only_where_names_leave_room(looks):
    short, long = ([side(f"{name}{more}", looks[name]) for name in ("deadline", "waiting")] for more in ("", ", " * 20))
    assert 'class="two"' in fleets_section(short) and 'class="two"' not in fleets_section(long)


def test_runs_that_use_late_reports_are_told_so(looks):
    late = replace(looks["deadline"], table={**looks["deadline"].table, "pace": {**SPEC["pace"], "max_staleness": 5}})
    assert "which use late reports too," in fleets_section([side("a", late)])
    plain, twice = (
        fleets_section([side("a", looks["deadline"])]),
        fleets_section([side("a", looks["deadline"], looks["deadline"])]),
    )
    assert "which use late reports too," not in plain and "Means over" not in plain
    assert "Means over the fleets of two seeds." in twice
