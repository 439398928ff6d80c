"""Books of seconds by cause."""

from fedfleet.measure.attribution.causes import CAUSES, Blame, RoundTime, sum_by_cause, total_attribution


def test_books_add_up_and_name_the_most_first():
    rounds = [
        RoundTime(0, 0.0, 4.0, {"pause": 1.0, "upload": 3.0}, 7),
        RoundTime(1, 4.0, 9.0, {"failed": 5.0}, -1, "few"),
    ]
    blame = Blame()
    blame.add("upload", (1, 7), 1.0)
    blame.add("upload", (7,), 2.0)
    blame.add("upload", (), 9.0)
    blame.add("pause", (3,), 0.0)
    result = total_attribution(rounds, blame.seconds, ended=True, cutting="none")
    assert tuple(result.causes) == CAUSES and result.virtual_seconds == 9.0 == sum(result.causes.values())
    assert result.failures == {"few": 5.0} and list(result.who) == ["upload"]
    assert list(result.who["upload"].items()) == [(7, 2.5), (1, 0.5)]
    assert total_attribution([], {}, ended=False, cutting="none").virtual_seconds == 0.0


def test_many_small_parts_are_summed_exactly():
    assert sum_by_cause([("pause", 0.1)] * 10) == {"pause": 1.0}
