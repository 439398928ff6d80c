"""What a page needs of each run, from its folder."""

from __future__ import annotations

import os
from urllib.parse import unquote_to_bytes, urlsplit

import numpy as np
import pytest

from fedfleet.app.pages.sides.page_runs import colour_sides, group_arms, link_to, load_page_run
from fedfleet.measure.tasks import task_table
from tests.app.pages.sides.arms import arm
from tests.app.pages.sides.looks import made, side


def test_a_finished_run_is_read_with_its_people_and_its_time(tiny_run, tmp_path):
    result = load_page_run(tiny_run.out, tiny_run.out.parent / "page.html")
    assert result.link == "out/report.html" and result.ended and result.last == tiny_run.metrics["accuracy"]
    assert result.used.sum() == tiny_run.metrics["fates"]["folded"]["tasks"]
    assert abs(sum(result.causes.values()) - result.end) < 1e-6 * result.end
    assert load_page_run(tiny_run.out, tmp_path / "x.html", explained=False).causes == {}


def test_a_usual_task_is_that_of_a_usual_person_however_often_anybody_is_asked(tiny_run, tmp_path):
    tasks = task_table(tiny_run.events)
    own = [tasks.samples[tasks.clients == client].mean() for client in set(tasks.clients.tolist())]
    assert load_page_run(tiny_run.out, tmp_path / "x.html", explained=False).samples == pytest.approx(np.mean(own))


def test_the_journal_alone_will_do(run_copy, tmp_path):
    for name in ("seal.json", "metrics.json", "report.html"):
        (run_copy / name).unlink(missing_ok=True)
    result = load_page_run(run_copy, tmp_path / "page.html")
    assert result.link == "" and result.metrics["commits"] > 0 and len(result.accuracy)


def test_before_its_first_model_a_run_has_the_accuracy_of_its_first_weights():
    late = made([0.1, 0.5, 0.9], seconds=[0.0, 90.0, 120.0], first=90.0)
    assert late.accuracy_at(89.0) == 0.1 and late.accuracy_at(90.0) == 0.5 and late.accuracy_at(1e9) == 0.9
    assert [late.has_model(at) for at in (89.0, 90.0, None)] == [False, True, True] and not made(first=None).has_model(None)
    untried = made([], end=9.0, first=None, metrics={"chance": 0.2})
    assert (untried.accuracy_at(9.0), untried.last) == (0.2, 0.2) and made([], end=9.0, first=3.0).accuracy_at(9.0) is None


def test_reaching_is_the_first_evaluation_that_has_it():
    assert made([0.1, 0.6, 0.5, 0.7]).seconds_to(0.6) == 60.0 and made([0.1, 0.2]).seconds_to(0.6) is None


def test_a_side_is_named_by_its_group_and_leads_to_the_first_report():
    two = side("b", made(), made(link="r/report.html"), group="mild")
    assert two.label == "mild, b" and two.link == "r/report.html" and side("b").link == ""


def test_links_are_relative_to_the_page(tmp_path):
    (tmp_path / "runs/a").mkdir(parents=True)
    assert link_to(tmp_path / "runs/a", tmp_path / "pages/x.html") == ""
    (tmp_path / "runs/a/report.html").write_text("")
    assert link_to(tmp_path / "runs/a", tmp_path / "pages/x.html") == "../runs/a/report.html"


@pytest.mark.parametrize("name", ["try #2", "50%25", "what?", "javascript:alert(1)", "a&b'c", os.fsdecode(b"caf\xe9")])
def test_links_lead_to_folders_of_any_name(tmp_path, name):
    report = tmp_path / name / "report.html"
    report.parent.mkdir()
    report.write_text("")
    link = link_to(report.parent, tmp_path / "x.html")
    at = urlsplit(link)
    assert (at.scheme, at.query, at.fragment) == ("", "", "")
    assert os.fsencode(tmp_path) + b"/" + unquote_to_bytes(at.path) == os.fsencode(report)


ARMS = [
    arm(f"{fleet} {pace}", 0.5, keys={"world.data.alpha": fleet, "pace.use": pace})
    for fleet in (10.0, 0.1)
    for pace in ("readiness", "deadline")
]


def test_arms_that_differ_in_world_and_more_are_grouped_by_world():
    groups = group_arms(ARMS)
    assert list(groups) == ["alpha 10", "alpha 0.1"]
    assert [[a.name for a in mine] for mine in groups.values()] == [["readiness", "deadline"]] * 2


def test_arms_that_differ_in_one_of_them_stay_together():
    only_pace, only_world = ARMS[:2], [ARMS[0], ARMS[2]]
    assert list(group_arms(only_pace)) == [""] and list(group_arms(only_world)) == [""]
    assert [a.name for a in group_arms(only_pace)[""]] == [a.name for a in only_pace]


def test_groups_share_a_colour_and_others_have_their_own():
    looks = (made(),)
    groups = colour_sides({"mild": [("a", looks), ("b", looks)], "severe": [("a", looks), ("b", looks)]})
    assert [(s.colour, s.thin) for s in groups] == [(1, False), (1, True), (2, False), (2, True)]
    alone = colour_sides({"": [(str(i), looks) for i in range(7)]})
    assert len({(s.colour, s.thin) for s in alone}) == 7, "no two of seven look alike"
