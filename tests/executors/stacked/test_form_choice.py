"""The choice of form: measured among the candidates."""

import pytest

from fedfleet.executors.stacked import form_choice
from fedfleet.executors.stacked.form_choice import candidates, choose_form
from tests.executors.cohorts import small_task, smooth


def test_the_candidates_of_a_device():
    assert candidates("cuda", 8) == [("merged", 1)]
    assert candidates("cpu", 1) == [("merged", 1), ("loop", 1)]
    assert candidates("cpu", 4) == [("merged", 1), ("merged", 4), ("loop", 1), ("loop", 4)]


@pytest.mark.parametrize("fastest", candidates("cpu", 2), ids=str)
def test_the_fastest_wins_and_all_times_are_written_down(fastest, monkeypatch):
    monkeypatch.setattr(form_choice, "_seconds", lambda task, form, device, n: 0.5 if (form, n) == fastest else 1.0)
    form = choose_form(small_task(smooth()), device="cpu", threads=2)
    assert (form.name, form.threads) == fastest
    assert form.seconds == {f"{f} x{n}": 0.5 if (f, n) == fastest else 1.0 for f, n in candidates("cpu", 2)}


def test_where_there_is_one_form_nothing_is_measured(monkeypatch):
    monkeypatch.setattr(form_choice, "_seconds", lambda *given: pytest.fail("nothing to choose from"))
    form = choose_form(small_task(smooth()), device="cuda", threads=4)
    assert (form.name, form.threads) == ("merged", 1)


def test_measuring_really_trains_both_forms():
    task = small_task(smooth())
    assert all(form_choice._seconds(task, form, "cpu", 1) > 0 for form in ("merged", "loop"))
