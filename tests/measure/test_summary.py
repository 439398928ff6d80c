"""The summary of a run says it all."""

import json
import math
from dataclasses import replace

from fedfleet.core.events import Evaluated, RoundFailed, TaskLost
from fedfleet.measure.summary import abandoned_rounds, rebroadcasts, summary
from tests.measure.journals import LOG, sent
from tests.measure.test_costs import COSTS


def test_the_summary_says_it_all():
    got = summary(LOG)
    assert (got["rounds"], got["commits"], got["rounds_failed"]) == (4, 3, 1)
    assert got["stopped_by"] == "rounds"
    assert got["best_accuracy"] == 0.9
    assert got["reports_rejected"] == 1
    assert got["virtual_seconds"] == 150.0
    assert got["staleness"] == [3, 1]
    assert got["energy"] is None and got["abandoned_rounds"] == 1 and got["rebroadcasts"] == 0


def test_the_summary_says_what_it_cost_and_is_ready_for_json():
    got = summary([*LOG[:-1], *COSTS, LOG[-1]])
    assert got["energy"] == {"joules": 150.0, "useful": 80.0, "wasted": 70.0, "probes": 0.0, "grams": 7.5}
    assert sum(got["bytes_wasted"].values()) == 400.0 and got["stage_seconds"]["compute"] == 109.0
    assert got["fates"]["dropped"]["worked_seconds"] == 20.0 and got["probes"]["asked"] == 0
    assert got["targets"][-1]["accuracy"] == 0.9 and len(got["budgets"]["seconds"]) == 4
    assert json.loads(json.dumps(got, allow_nan=False)) == got


def test_a_task_that_could_not_be_done_wasted_no_time():
    # Its seconds are not a number; every measure must stay one.
    unable = [replace(e, seconds=math.nan) if isinstance(e, TaskLost) else e for e in LOG]
    assert summary(unable) == summary(LOG)


def test_a_loss_that_is_no_number_any_more_is_none_and_the_summary_stays_json():
    for odd in (float("nan"), float("inf")):
        log = [replace(e, loss=odd) if isinstance(e, Evaluated) else e for e in LOG]
        result = summary(log)
        assert result["loss"] is None and result["accuracy"] == summary(LOG)["accuracy"]
        json.dumps(result, allow_nan=False)


def test_every_ask_beyond_the_first_of_a_round_is_one_again():
    assert rebroadcasts(LOG) == 0
    assert rebroadcasts([*LOG, sent(160.0, 4, 3, 8, 0), sent(170.0, 4, 3, 9, 1), sent(180.0, 4, 3, 10, 2)]) == 2


def test_a_round_is_abandoned_if_it_failed_after_someone_was_asked():
    assert abandoned_rounds(LOG) == 1
    assert abandoned_rounds([*LOG, RoundFailed(160.0, 4, "nobody there")]) == 1
    assert abandoned_rounds([*LOG, sent(155.0, 4, 3, 8, 0), RoundFailed(160.0, 4, "too late")]) == 2
