"""What a run cost."""

import re

from fedfleet.app.pages.cost_table import costs


def row(tasks, worked, waited, down, up, joules):
    seconds = {"worked_seconds": worked, "waited_seconds": waited}
    return {"tasks": tasks, "unknown": 0, **seconds, "bytes_down": down, "bytes_up": up, "joules": joules}


MEASURES = {
    "fates": {
        "folded": row(3, 60.0, 0.0, 6e6, 3e6, 750.0),
        "lost": row(0, 0.0, 0.0, 0.0, 0.0, 0.0),
        "dropped": row(1, 20.0, 10.0, 1e6, 0.0, 250.0),
    },
    "bytes_wasted": {"down": 6e5, "up": 4e5},
    "energy": {"joules": 1000.0, "useful": 750.0, "wasted": 250.0, "probes": 0.0, "grams": None},
}


def test_used_and_thrown_away_stand_beside_each_other_and_add_up():
    text = "".join(costs(MEASURES))
    assert "10.0 % of the bytes and 25.0 % of the energy." in text
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", line) for line in text.split("<tr>")[2:]]
    assert [line[0] for line in rows] == ["used", "too late, given up", "all"], "what never happened has no row"
    assert rows[2][1] == "4" and rows[2][2] == "80 s" and rows[2][5] == "1 kJ"
    assert "carbon" not in text and "not known" not in text


def test_probes_carbon_and_the_unknown_are_told():
    more = {
        **MEASURES,
        "probes": {
            "asked": 40,
            "answered": 39,
            "worked_seconds": 5.0,
            "bytes_down": 1.0,
            "bytes_up": 0.0,
            "joules": 1.0,
        },
        "energy": {**MEASURES["energy"], "grams": 12.0},
        "fates": {"folded": {**MEASURES["fates"]["folded"], "unknown": 2}},
    }
    text = "".join(costs(more))
    assert "probes, before choosing" in text and "12 g of carbon dioxide" in text and "The cost of 2 tasks is not known" in text


def test_a_run_that_wasted_nothing_does_not_speak_of_waste():
    clean = {**MEASURES, "bytes_wasted": {"down": 0.0, "up": 0.0}, "energy": {**MEASURES["energy"], "useful": 1000.0}}
    text = "".join(costs({**clean, "fates": {"folded": MEASURES["fates"]["folded"]}}))
    assert "Wasted" not in text and text.count("<tr>") == 2, "nor is one row added up"


def test_measures_without_costs_have_no_section():
    assert costs({}) == [] and costs({"fates": {}}) == []
