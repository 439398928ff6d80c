"""Figures of a run, from its events."""

from fedfleet.app.pages.figures import accuracy_over_time, loss_over_commits, rounds_timeline, who_took_part
from fedfleet.measure.tasks import task_table


def test_learning_has_a_point_for_each_evaluation(tiny_run):
    for text in (accuracy_over_time([("mine", tiny_run.events, "red", False)]), loss_over_commits(tiny_run.events)):
        (line,) = text.split('points="')[1:]
        assert len(line.partition('"')[0].split()) == 7, "six commits, and the first model"


def test_every_client_has_a_bar_most_active_first(tiny_run):
    text = who_took_part(task_table(tiny_run.events), 12)
    counts = [int(t.split(": ")[1].split()[0]) for t in text.split("<title>client ")[1:]]
    assert len(counts) == 12 and counts == sorted(counts, reverse=True) and sum(counts) == 24
    assert ("never asked" in text) == (0 in counts)


def test_a_few_rounds_are_shown_with_their_ends(tiny_run):
    text = rounds_timeline(tiny_run.events, task_table(tiny_run.events), rounds=2)
    assert text.count('class="mark"') == 2
    assert text.count("folded after") == 8
    assert rounds_timeline([], task_table([])) == ""
