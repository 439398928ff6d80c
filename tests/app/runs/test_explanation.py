"""Explaining run folders: simulated, with edges, going on, of an own model, served."""

import json
import math
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from fedfleet.app.pages.report_page import report_run
from fedfleet.app.runs import perform
from fedfleet.app.runs.explanation import (
    _round,
    attribute_run,
    attribute_simulated,
    attribution_answer,
    explain_run,
    explanation_text,
    notes,
)
from fedfleet.app.spec import load_spec
from fedfleet.core.errors import BadInput, FedFleetError
from fedfleet.core.events import ModelCommitted
from fedfleet.measure.attribution.causes import CAUSES, RoundTime, total_attribution
from fedfleet.store import journal as journals
from tests.app.runs.test_served_run import ROUNDS, served
from tests.app.specs import TINY, written

pytestmark = pytest.mark.slow

ASYNC = TINY.replace('use = "readiness"\ncohort = 4', 'use = "buffered"\nk = 2\nconcurrency = 4')
ASYNC = ASYNC.replace('devices = { use = "spread" }', 'devices = { use = "spread" }\nstates = { use = "daily", ready = 0.5 }')


def adds_up(result):
    return abs(math.fsum(result["causes"].values()) - result["virtual_seconds"]) < 1e-6


def test_the_answer_keeps_the_contract(tiny_run):
    result = explain_run(tiny_run.out, longest=2)
    assert {"virtual_seconds", "causes", "counterfactuals", "shapley", "sentence"} <= result.keys()
    assert result["virtual_seconds"] == tiny_run.metrics["virtual_seconds"] and adds_up(result)
    assert tuple(result["causes"]) == CAUSES and result["causes"]["pause"] == 6 * 20.0
    assert result["rounds"] == 6 and result["ended"] and result["notes"] == [] and result["cutting"] == "none"
    longest = result["longest_rounds"]
    assert len(longest) == 2 and longest[0]["seconds"] >= longest[1]["seconds"]
    assert json.loads(json.dumps(result)) == result
    assert all(c in range(12) for mine in result["waited_for"].values() for c, _ in mine)


def test_users_are_explained_as_clients_are(edge_run):
    result = explain_run(edge_run.out)
    assert adds_up(result) and result["causes"]["unknown"] == 0 and result["causes"]["compute"] > 0


def test_tasks_of_earlier_rounds_are_cut_as_the_world_says(tmp_path):
    done = perform(load_spec(written(tmp_path, ASYNC)), tmp_path / "out")
    result = explain_run(done.out)
    assert result["cutting"] == "world" and result["notes"] == [] and adds_up(result)


def test_where_the_world_cannot_be_built_tasks_are_cut_evenly_and_that_is_said(tmp_path, monkeypatch):
    done = perform(load_spec(written(tmp_path, ASYNC)), tmp_path / "out")

    def gone(spec):
        raise BadInput("a file of the world is gone")

    monkeypatch.setattr("fedfleet.app.runs.explanation.assemble", gone)
    assert attribute_simulated(done.spec, done.events).cutting == "evenly"
    result = explain_run(done.out)
    assert result["cutting"] == "evenly" and "divided evenly" in result["notes"][0] and adds_up(result)


def test_a_run_of_an_own_model_is_explained_without_its_code(coded):
    result = explain_run(coded.out)
    assert adds_up(result) and result["ended"]


def test_a_run_that_is_going_on_is_explained_so_far(tiny_run, tmp_path):
    last = [i for i, e in enumerate(tiny_run.events) if isinstance(e, ModelCommitted)][2]
    (tmp_path / "half").mkdir()
    shutil.copy(tiny_run.out / "spec.toml", tmp_path / "half")
    identity = journals.identity_of(tiny_run.out / "run.db")
    with closing(journals.create(tmp_path / "half/run.db", identity)) as journal:
        journal.append(tiny_run.events[: last + 1])
        journal.flush()
    result = explain_run(tmp_path / "half")
    assert result["rounds"] == 3 and not result["ended"] and adds_up(result)
    assert "so far" in result["sentence"] and "has not ended" in result["notes"][0]


def test_what_is_no_run_is_refused(tmp_path, tiny_run):
    with pytest.raises(BadInput, match="no run folder"):
        explain_run(tmp_path / "none")
    with pytest.raises(FedFleetError, match="no journal"):
        explain_run(tmp_path)


def test_of_a_served_run_what_nobody_measured_is_unknown(tmp_path):
    done, _ = served(written(tmp_path, ROUNDS), tmp_path)
    result = explain_run(done.out)
    assert adds_up(result) and result["causes"]["unknown"] > 0 and result["causes"]["compute"] > 0
    assert any("is not measured, so it is unknown" in note for note in result["notes"])
    assert attribute_run(done.out)[1] is True and "of real time, 2 rounds" in explanation_text(result)
    page = report_run(done.out)["report"]
    assert "real time" in Path(page).read_text() and "virtual time" not in Path(page).read_text()
    assert notes(attribute_run(done.out)[0], served=False) == []


def test_causes_from_the_largest_down_then_rounds_then_the_sentence():
    rounds = [
        RoundTime(0, 0.0, 100.0, {"pause": 20.0, "upload": 80.0}, 3),
        RoundTime(1, 100.0, 150.0, {"failed": 50.0}, -1, "too few came"),
    ]
    result = total_attribution(rounds, {"upload": {3: 80.0}}, ended=True, cutting="none")
    answer = {**attribution_answer(result), "notes": ["mind this"], "longest_rounds": [_round(r) for r in rounds]}
    lines = explanation_text(answer).splitlines()
    assert lines[0] == "2.5 min of virtual time, 2 rounds"
    assert [line.split()[0] for line in lines[2:5]] == ["upload", "failed", "pause"]
    assert "all of it for client 3" in lines[2] and "53 %" in lines[2]
    assert "failed: 50 s because too few came" in lines
    assert any("80 % upload, 20 % pause; closed by client 3" in line for line in lines)
    assert any("all failed; too few came" in line for line in lines)
    assert lines[-2].startswith("53 % of the time was waiting for uploads") and lines[-1] == "note: mind this"


def test_nothing_is_explained_in_one_line():
    nothing = {**attribution_answer(total_attribution([], {}, ended=False, cutting="none")), "notes": []}
    assert explanation_text(nothing) == "No time has passed yet, so there is nothing to explain."
