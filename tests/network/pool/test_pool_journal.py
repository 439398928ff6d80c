"""The pool's journal is lines of JSON, with moments as seconds of the run; tasks are counted once however often they are tried."""

import json

from fedfleet.network.pool.pool_journal import PoolJournal

TASK = {"client": 2, "task": 5, "kind": "train", "round": 1, "declined": "", "compute_seconds": 0.5}


def test_events_are_lines_with_the_seconds_of_the_run(tmp_path):
    now = [100.0]
    journal = PoolJournal(tmp_path / "pool.jsonl", 2, lambda: now[0])
    now[0] = 101.5
    journal.write("task", device=1, began=100.25, ended=101.25, **TASK)
    assert journal.seconds == 1.5
    journal.close()
    (row,) = [json.loads(line) for line in (tmp_path / "pool.jsonl").read_text().splitlines()]
    assert (row["seconds"], row["began"], row["ended"]) == (1.5, 0.25, 1.25)


def test_a_task_that_is_done_again_after_a_death_counts_once_with_its_attempts(tmp_path):
    journal = PoolJournal(tmp_path / "pool.jsonl", 1, lambda: 0.0)
    for began in (1.0, 3.0):
        journal.write("task", device=0, began=began, ended=began + 1, **TASK)
    journal.write("delivered", device=0, client=2, task=5, kind="train", at=4.5, end="safe")
    journal.write("task", device=0, began=6.0, ended=7.0, **TASK | {"task": 3})
    first, second = journal.tasks()
    journal.write("delivered", device=0, client=2, task=5, kind="evaluate", at=9.0, end="late")  # another one of this number
    assert (first["task"], first["delivered"], first["end"]) == (3, None, None)
    assert (second["task"], second["attempts"], second["began"], second["delivered"], second["end"]) == (5, 2, 3.0, 4.5, "safe")
    journal.close()
