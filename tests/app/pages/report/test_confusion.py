"""Class by class."""

from fedfleet.app.pages.report.confusion import classes_section
from fedfleet.app.pages.report.report_facts import collect_facts
from fedfleet.measure.summary import summary
from tests.app.pages.report.logs import journal

LOG = journal([([0], [])])


def section(classes, confusion=None):
    metrics = {**summary(LOG), "classes": classes, "confusion": confusion}
    return "".join(classes_section(collect_facts("x", "seed = 1", metrics, LOG)))


def a_class(label, recall, n=10):
    return {"label": label, "n": n, "recall": recall, "precision": 0.5}


def test_the_best_and_the_worst_class_are_named_and_mistakes_are_drawn():
    text = section([a_class("sit", 0.9), a_class("<run>", 0.2)], [[9, 1], [8, 2]])
    assert "Of class &lt;run&gt; the model finds 20 %, of class sit 90 %." in text
    assert "&lt;run&gt; classified as sit, 8 of 10 times." in text and text.count("<svg") == 4


def test_a_class_that_was_never_there_has_no_share():
    assert ">-<" in section([a_class("a", 0.9), a_class("b", None, n=0)])


def test_many_classes_are_a_table_and_none_are_nothing():
    text = section([a_class(i, i / 50) for i in range(40)])
    assert "<svg" not in text and text.count("<tr>") == 41
    assert section([]) == "" and section(None) == ""
