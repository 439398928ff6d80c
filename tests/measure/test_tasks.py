"""What became of each task, by hand."""

from fedfleet.core.records import FATES
from fedfleet.measure.tasks import RUNNING, task_table
from tests.measure.journals import LOG, TASKS


def test_fates():
    assert [FATES[f] for f in TASKS.fate] == [
        "folded",
        "folded",
        "rejected",
        "dropped",
        "lost",
        "wasted",
        "folded",
        "folded",
    ]
    assert TASKS.folded_into.tolist() == [1, 1, 0, 0, 0, 0, 3, 2]
    assert TASKS.rounds.tolist() == [0, 0, 0, 0, 1, 1, 2, 2]


def test_a_journal_that_is_still_written_has_running_tasks():
    assert task_table(LOG[:4]).fate.tolist() == [2, RUNNING, RUNNING, RUNNING]
