"""How hard fleets are under the pacing of their own runs."""

from dataclasses import replace

import pytest

from fedfleet.app.pages.sides.comparison_words import capitalise
from fedfleet.app.pages.sides.page_runs import load_page_run
from fedfleet.app.pages.sides.side_hardness import hardness_section, hardness_word, measure_sides, observed_share
from fedfleet.app.runs import perform
from fedfleet.app.spec import resolve
from tests.app.pages.sides.looks import made, side

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
    page = hardness_section(sides)
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
    page = hardness_section(sides)
    assert "these fleets" in page and "Until the deadline of each" in page
    assert all(capitalise(f"{row.name}: {hardness_word(row)}") in page for row in rows)


def test_a_group_whose_sides_have_several_deadlines_names_them(looks):
    sides = [side(name, looks[name], group="mild") for name in ("deadline", "patient")]
    assert [row.name for row in measure_sides(sides, by_deadline=True)] == ["mild, deadline", "mild, patient"]
    assert "How hard is this fleet?" in hardness_section(sides)


def test_without_a_named_size_the_model_is_as_large_as_what_travelled(tmp_path):
    world = {key: value for key, value in SPEC["world"].items() if key != "model_bytes"}
    bare = load_page_run(perform(resolve({**SPEC, "world": world}, "x"), tmp_path / "run").out, tmp_path / "p.html")
    assert bare.model_bytes == 2600.0, "650 weights of 4 bytes"
    (result,) = measure_sides([side("bare", bare)], by_deadline=True)
    assert result.plain["InterMC"] > 0.4 and "How hard is this fleet?" in hardness_section([side("bare", bare)])


def test_what_a_run_saw_counts_nobody_beyond_an_equal_share():
    # 2 asked in 4 rounds of 4 people: a fair share is 2 reports each
    assert observed_share(made(used=(8, 0, 0, 0))) == 2 / 8 and observed_share(made(used=(2, 2, 2, 2))) == 1.0


def test_other_pacings_have_no_section():
    assert hardness_section([side("a", made(table={"pace": {"use": "buffered"}}))]) == ""


def test_a_row_of_several_arms_has_no_arms_colour_and_all_have_one_name(looks):
    sides = [side(name, looks[name], colour=i + 1) for i, name in enumerate(("deadline", "other", "deadline"))]
    (row,) = measure_sides(sides, by_deadline=True)
    assert (row.name, row.colour) == ("all three arms", 0) and measure_sides(sides[:1], by_deadline=True)[0].colour == 1


def test_tables_stand_beside_each_other_only_where_names_leave_room(looks):
    short, long = ([side(f"{name}{more}", looks[name]) for name in ("deadline", "waiting")] for more in ("", ", " * 20))
    assert 'class="two"' in hardness_section(short) and 'class="two"' not in hardness_section(long)


def test_runs_that_use_late_reports_are_told_so(looks):
    late = replace(looks["deadline"], table={**looks["deadline"].table, "pace": {**SPEC["pace"], "max_staleness": 5}})
    assert "which use late reports too," in hardness_section([side("a", late)])
    plain, twice = (
        hardness_section([side("a", looks["deadline"])]),
        hardness_section([side("a", looks["deadline"], looks["deadline"])]),
    )
    assert "which use late reports too," not in plain and "Means over" not in plain
    assert "Means over the fleets of two seeds." in twice
