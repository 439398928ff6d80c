"""The anatomy of rounds, and those that failed."""

import re

import numpy as np
import pytest

from fedfleet.app.pages.charts.axes import Scale
from fedfleet.app.pages.charts.labels import width_of
from fedfleet.app.pages.report.rounds import (
    ShownRound,
    _remaining_work,
    failed_section,
    round_sentence,
    rounds_section,
    shown_rounds,
)
from fedfleet.core.events import TasksSpent
from fedfleet.measure.round_timeline import RoundTimeline, TaskSpan
from tests.app.pages.report.logs import facts_of, journal, needs, seen


def with_spending(log):
    """The journal with what each task that came went into."""
    spent = {"download": np.array([10.0]), "compute": np.array([30.0]), "upload": np.array([5.0])}
    result = []
    for e in log:
        result.append(e)
        if type(e).__name__ == "TaskArrived":
            result.append(TasksSpent(e.time, np.array([e.task]), np.array([e.client]), spent))
    return result


LOG = journal([([0], [1, 2]), ([0, 1, 2], []), ([0, 1], [2]), ([], [1, 2]), ([0, 1], [2])], clients=4)


def test_the_best_the_usual_and_the_worst_round_are_shown():
    result = {s.word: s.round.number for s in shown_rounds(facts_of(LOG))}
    assert list(result) == ["best", "usual", "worst"] and result["best"] == 1 and result["worst"] == 3
    assert shown_rounds(facts_of(journal([], end=None))) == [] and rounds_section(facts_of(journal([], end=None))) == []


def test_headings_count_what_was_used():
    headings = [s.heading for s in shown_rounds(facts_of(LOG))]
    assert headings[0] == "Round 2, the best: 3 of 3 used" and headings[2] == "Round 4, one that failed: 0 of 2 used"


def test_a_bar_is_as_long_as_its_stages_and_the_rest_is_out_of_reach():
    text = "".join(rounds_section(facts_of(with_spending(journal([([0], [])] * 3, clients=2))))).partition('class="slim"')[0]
    pieces = [(kind, float(w)) for w, kind in re.findall(r'width="([\d.]+)" height="10.0" class="(\w+)"', text)][:4]
    (a, down), (b, train), (c, up), (d, away) = pieces
    assert (a, b, c, d) == ("a4", "a5", "a4", "a6")
    assert (
        train == pytest.approx(3 * down, abs=0.3) and up == pytest.approx(down / 2, abs=0.2) and away == pytest.approx(up, abs=0.2)
    )


def test_what_entered_no_model_is_hatched_and_what_it_would_have_needed_follows():
    world = seen([1] * 4, needs=needs([50, 75, 75] + [50] * 3 + [50, 50, 70] + [80, 9e9] + [50, 50, 70]))
    text = "".join(rounds_section(facts_of(LOG, hindsight=world)))
    assert 'class="over"' in text and "would still have been needed" in text and "→" in text
    assert "would still have been needed" not in "".join(rounds_section(facts_of(LOG)))


def a_round(**changed):
    strand = TaskSpan(0, 3, 5.0, 5.0, "lost", "lost: <broken>", {})
    usual = {
        "number": 7, "opened": 5.0, "closed": 5.0, "version": 1, "reason": "", "asked": ((5.0, 2), (25.0, 1)), "refills": False,
        "fates": {"folded": 1, "dropped": 1, "running": 1}, "spans": (strand,),
    }  # fmt: skip
    return RoundTimeline(**(usual | changed))


def test_a_round_is_told_in_words():
    assert round_sentence(ShownRound("usual", a_round(closed=45.0))) == (
        "Round 8, a usual one: 1 of 3 used in 2 broadcasts; 1 used, 1 too late, 1 still training; model 1 was made after 40 s"
    )
    assert "as others ended" in round_sentence(ShownRound("usual", a_round(refills=True)))
    silent = a_round(version=None, reason="<nobody>", fates={}, asked=((5.0, 2),))
    assert (
        round_sentence(ShownRound("worst", silent))
        == "Round 8, one that failed: 0 of 2 used; no report; it failed, because <nobody>, after 0"
    )


def test_failed_rounds_are_listed_by_reason():
    text = "".join(failed_section(facts_of(LOG)))
    assert "no report came in time" in text and "1 of 5" in text and "6 min after the start" in text
    assert failed_section(facts_of(journal([([0], [])]))) == []


def test_names_are_escaped_and_nothing_is_not_a_number(tiny_run):
    text = "".join(rounds_section(facts_of(tiny_run.events)))
    assert text.count("<svg") == 2 and "nan" not in text and "inf" not in text


def test_how_long_a_task_would_have_needed_stands_on_pale_ground_also_where_its_bar_fills_the_panel():
    late, x = TaskSpan(0, 3, 5.0, 90.0, "dropped", "late", {}), Scale(0.0, 60.0, 20.0, 200.0)
    f = facts_of(LOG, hindsight=seen([1] * 4, needs=needs([9000.0] + [50] * 13)))
    for last in (60.0, 20.0):  # the bar reaches the end, or leaves room
        ground = [
            (float(a), float(b))
            for a, b in re.findall(
                r'<rect x="([\d.]+)"[^>]*width="([\d.]+)"[^>]*class="aw"',
                "".join(_remaining_work(late, a_round(closed=90.0, spans=(late,)), x, 0.0, f, last)),
            )
        ]
        assert any(a + wide == pytest.approx(200.0, abs=0.2) and wide >= width_of("2.5 h →") for a, wide in ground)
