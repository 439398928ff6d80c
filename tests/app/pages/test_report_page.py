"""The report of a run."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from fedfleet.app.api.run import run
from fedfleet.app.pages.report_page import cost_section, render, report_run, write_report
from fedfleet.app.runs import open_run, perform
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import (
    Evaluated,
    ModelCommitted,
    ReportsGathered,
    RunBegan,
    RunEnded,
    TaskArrived,
    TasksDropped,
    TasksSent,
)
from fedfleet.core.records import ClientScores
from fedfleet.measure.summary import summary
from fedfleet.store import journal as journals
from tests.app.runs import owned

pytestmark = pytest.mark.slow


def test_the_report_begins_with_a_conclusion_and_ends_with_how_to_check_it(tiny_run):
    page = (tiny_run.out / "report.html").read_text()
    heads = re.findall(r"<h[12]>([^<]+)<", page)
    assert heads[0].startswith(f"{100 * tiny_run.metrics['accuracy']:.0f}\u00a0%: the model learnt from")
    assert heads[1] == "Learning" and heads[-1] == "How to check it"
    assert tiny_run.metrics["digest"] in page and "cohort = 4" in page and "&quot;virtual_seconds&quot;" in page
    assert "After 6 rounds" in page and len(page) < 400_000


def test_every_picture_has_words_and_a_twin_for_phones(tiny_run):
    page = (tiny_run.out / "report.html").read_text()
    labels = re.findall(r'<svg viewBox="0 0 (\d+) \d+" role="img" aria-label="([^"]+)"', page)
    assert len(labels) == page.count('role="img"') >= 12
    assert sum(int(width) == 350 for width, _ in labels) * 2 == len(labels) and all(len(said) > 20 for _, said in labels)
    for word in ("<script", "<link", "http://", "https://", "@import", "NaN", ">nan", ">inf"):
        assert word not in page


def test_remarks_of_the_journal_are_told(run_copy):
    assert "How it was computed" not in (run_copy / "report.html").read_text()
    (run_copy / "seal.json").unlink()  # a run that goes on
    journal = journals.reopen(run_copy / "run.db")
    for remark in ("trained by <a> loop", "12 % was padding"):
        journal.remark(remark)
    journal.close()
    metrics = report_run(run_copy)
    page = (run_copy / "report.html").read_text()
    assert "<summary>How it was computed</summary>" in page
    assert "<li>trained by &lt;a&gt; loop</li><li>12\u00a0% was padding</li>" in page
    assert metrics["rounds"] == 6, "a remark is no event"


def test_a_report_that_finds_no_room_says_how_to_have_it_later(tiny_run, monkeypatch):
    def full(path, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(RunFailed, match=r"is finished, but .*cannot write .*report.html: No space.*; then run: fedfleet report "):
        write_report(tiny_run)


def test_names_are_escaped(tiny_run):
    page = render("<q>", "x = '<i>'", tiny_run.metrics, tiny_run.events)
    assert "run &lt;q&gt;" in page and "&lt;i&gt;" in page and "<q>" not in page and "<i>" not in page


def test_a_run_that_goes_on_says_so(run_copy):
    (run_copy / "seal.json").unlink()
    spec, events, _ = open_run(run_copy)
    half = [e for e in events[: len(events) // 2] if not isinstance(e, RunEnded)]
    page = render("x", spec.toml(), summary(half), half, ended=False)
    assert "<h1>So far" in page


@pytest.mark.parametrize("events", [0, 1, 2, 3, 5, 8, 13, 21])
def test_a_journal_of_any_length_is_drawn(tiny_run, events):
    log = list(tiny_run.events[: events + 1])
    page = render("x", tiny_run.spec.toml(), summary(log), log, ended=False)
    assert "How to check it" in page and ">nan" not in page


def test_an_empty_journal_has_nothing_to_report(run_copy):
    (run_copy / "seal.json").unlink()  # a run that goes on
    journals.create(run_copy / "run.db").close()
    with pytest.raises(BadInput, match="nothing to report yet"):
        report_run(run_copy)


def large_log(clients, *, rounds=12, cohort=1000):
    """A run on a large fleet: in each round nine of ten that were asked report, and everybody is judged at the end."""
    rng = np.random.default_rng(0)
    log = [RunBegan(0.0, 1, clients, "", ""), Evaluated(0.0, 0, 10, 100, 2.3)]
    # Drawn by the square of a uniform number, so that some are asked often.
    for r in range(rounds):
        who = np.unique((rng.random(cohort) ** 2 * clients).astype(np.int64))
        n, first, time = len(who), sum(len(e.clients) for e in log if isinstance(e, TasksSent)), 100.0 * r
        columns = [np.zeros(n, np.int64), np.ones(n), np.full(n, 5.0), np.full(n, 1e6)]
        log.append(TasksSent(time, r, r, first, who, *columns))
        late = np.arange(n) % 10 == 0
        tasks = first + np.arange(n)
        log += [TaskArrived(time + 50, int(t), int(c), 50.0, 1e6) for t, c in zip(tasks[~late], who[~late], strict=True)]
        log.append(TasksDropped(time + 60, tasks[late], who[late], np.full(late.sum(), 60.0)))
        log += [ReportsGathered(time + 60, None, tasks[~late], {}), ModelCommitted(time + 60, r, r + 1, "a", n)]
        log.append(Evaluated(time + 60, r + 1, 10 + r, 100, 2.0 / (r + 1)))
    total = np.full(clients, 20)
    scores = ClientScores(np.arange(clients), rng.binomial(20, 0.8, clients), total)
    return [*log, Evaluated(100.0 * rounds, rounds, 80, 100, 0.2, scores), RunEnded(100.0 * rounds, "rounds")]


def test_a_report_does_not_grow_with_the_fleet():
    sizes = {}
    for clients in (2_000, 20_000, 1_000_000):
        log = large_log(clients)
        measures = summary(log)
        page = render("large", "seed = 1", measures, log)
        sizes[clients] = len(page.encode())
        assert f"{clients:,} clients" in page
        assert len(json.dumps(measures)) < 4000, "nor do the measures"
    assert sizes[1_000_000] < 400_000 and sizes[1_000_000] < 1.2 * sizes[20_000]


def test_the_page_of_an_own_model_says_why_reports_were_late_and_how_hard_its_fleet_is(tmp_path):
    spec = {
        "seed": 1,
        "world": {"clients": 9, "data": "by_owner", "devices": {"use": "spread", "link": 1.5}},
        "pace": {"use": "deadline", "cohort": 6, "seconds": 2.5},
        "stop": {"rounds": 5},
    }
    for model in (owned.row(), owned.Net()):  # PyTorch's own layers, and code that nobody has said to trust
        done = run(spec, model=model, data=owned.blobs(owners=True), out=tmp_path / type(model).__name__)
        pages = [(done.out / "report.html").read_text()]
        report_run(done.out)  # from the folder alone
        for page in [*pages, (done.out / "report.html").read_text()]:
            for said in ("Why reports were late", "Whose data the model saw", "This fleet is", "What to try"):
                assert said in page, said
            assert re.search(r"\d\s(B|kB) each way", page), "the size of the model is in the journal"
    (done.out / "own" / "labels.safetensors").write_bytes(b"")
    report_run(done.out)
    assert "Why reports were late" not in (done.out / "report.html").read_text(), "no world, no claim"


def test_which_accuracy_to_read_is_said_by_the_answer_the_page_and_the_audit(tmp_path):
    spec = {
        "task": "digits_logreg",
        "algorithm": "local_only",
        "world": {"clients": 6},
        "pace": {"cohort": 3},
        "stop": {"rounds": 1},
    }
    done = perform(resolve(spec), tmp_path / "run")
    (said,) = [w for w in done.metrics["warnings"] if "read accuracy_clients" in w]
    assert report_run(done.out)["warnings"].count(said) == 1
    assert "read accuracy_clients" in (done.out / "report.html").read_text()
    replay_run(done.out)


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
    text = "".join(cost_section(MEASURES))
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
    text = "".join(cost_section(more))
    assert "probes, before choosing" in text and "12 g of carbon dioxide" in text and "The cost of 2 tasks is not known" in text


def test_a_run_that_wasted_nothing_does_not_speak_of_waste():
    clean = {**MEASURES, "bytes_wasted": {"down": 0.0, "up": 0.0}, "energy": {**MEASURES["energy"], "useful": 1000.0}}
    text = "".join(cost_section({**clean, "fates": {"folded": MEASURES["fates"]["folded"]}}))
    assert "Wasted" not in text and text.count("<tr>") == 2, "nor is one row added up"


def test_measures_without_costs_have_no_section():
    assert cost_section({}) == [] and cost_section({"fates": {}}) == []
