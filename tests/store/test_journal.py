"""The journal store: digests, reading while writing, truncation, names that are found out beside the run."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.errors import RunFailed
from fedfleet.core.events import Evaluated, ModelCommitted
from fedfleet.core.records import Report, Stop
from fedfleet.core.trees import ModelName, content_hash
from fedfleet.simulation.simulator import simulate
from fedfleet.store import journal as journals
from fedfleet.store.journal_rows import decode
from fedfleet.testing.toys import consensus, opaque_executor
from tests.worlds import commits_at, even_fleet, events_of, toy_plan, world_of


def test_it_can_be_read_while_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "_BATCH_SECONDS", float("inf"))  # else a batch is whole after a second
    log, _ = events_of(toy_plan(commits_at(3, 2), 5), world_of(even_fleet(5)))
    journal = journals.create(tmp_path / "run.db")
    journal.append(log[:10])
    assert list(journals.read(tmp_path / "run.db")) == [], "a batch appears whole"
    journal.flush()
    assert len(list(journals.read(tmp_path / "run.db"))) == 10
    journal.append(log[10:])
    journal.close()
    assert len(list(journals.read(tmp_path / "run.db"))) == len(log)
    assert journals.digest_of(tmp_path / "run.db") == journal.digest
    assert {p.name for p in tmp_path.iterdir()} == {"run.db"}, "no files are left beside it"


def test_truncation_takes_the_digest_up_again(tmp_path):
    log, _ = events_of(toy_plan(commits_at(3, 2), 5), world_of(even_fleet(5)))
    straight = journals.memory_journal()
    straight.append(log)
    journal = journals.create(tmp_path / "run.db")
    journal.append(log[:12])
    journal.flush()
    kept = journal.position
    journal.append(log[:3])  # what a killed run had written after its checkpoint
    journal.close()
    again = journals.reopen(tmp_path / "run.db")
    again.truncate(kept)
    again.append(log[12:])
    again.close()
    assert again.digest == straight.digest


def test_diagnostics_stay_out_of_the_digest():
    one, two = journals.memory_journal(), journals.memory_journal()
    one.append([Evaluated(1.0, 1, 3, 4, 0.123)])
    two.append([Evaluated(1.0, 1, 3, 4, 0.456)])
    assert one.digest == two.digest
    two.append([Evaluated(1.0, 1, 2, 4, 0.456)])
    assert one.digest != two.digest


def test_a_full_disk_fails_the_run_and_says_so(tmp_path):
    journal = journals.create(tmp_path / "run.db")
    journal._db.execute("PRAGMA max_page_count = 3")
    log, _ = events_of(toy_plan(commits_at(3, 2), 5, stop=Stop(rounds=40)), world_of(even_fleet(5)))
    journal.append(log)
    with pytest.raises(RunFailed, match="then resume"):
        journal.flush()


# ---- names that are found out beside the run ----------------------------------------------------------------------


def committed(version, tree):
    return ModelCommitted(float(version), version, version, tree, 3)


def slowly(tree, gate):
    """A name that is found only when the gate opens."""

    class Slow(ModelName):
        def __str__(self):
            assert gate.wait(60)
            return super().__str__()

    return Slow(tree)


def test_what_is_behind_an_unknown_name_waits_in_order(tmp_path):
    gate, tree = threading.Event(), {"w": np.arange(1 << 15, dtype=np.float32)}
    log = [committed(1, slowly(tree, gate)), Evaluated(1.0, 1, 3, 4, 0.5), committed(2, slowly(tree, gate))]
    plain = journals.memory_journal()
    plain.append([committed(1, content_hash(tree)), log[1], committed(2, content_hash(tree))])
    plain.append([Evaluated(2.0, 2, 3, 4, 0.5)])
    journal = journals.create(tmp_path / "run.db")
    journal.append(log)
    journal.remark("meanwhile")
    journal.append([Evaluated(2.0, 2, 3, 4, 0.5)])
    assert list(journals.read(tmp_path / "run.db")) == [], "nothing could be written yet"
    threading.Timer(0.05, gate.set).start()
    assert journal.digest == plain.digest
    assert journal.position == plain.position + 1
    journal.close()
    assert [type(e) for e in decode(journals.rows_of(tmp_path / "run.db"))] == [
        ModelCommitted,
        Evaluated,
        ModelCommitted,
        Evaluated,
    ]
    assert journals.digest_of(tmp_path / "run.db") == plain.digest


def test_truncation_waits_for_names(tmp_path):
    gate, tree = threading.Event(), {"w": np.arange(1 << 15, dtype=np.float32)}
    journal = journals.create(tmp_path / "run.db")
    journal.append([Evaluated(0.0, 0, 3, 4, 0.5), committed(1, slowly(tree, gate)), Evaluated(1.0, 1, 3, 4, 0.5)])
    threading.Timer(0.05, gate.set).start()
    journal.truncate(2)
    journal.close()
    assert [type(e) for e in decode(journals.rows_of(tmp_path / "run.db"))] == [Evaluated, ModelCommitted]


def test_an_error_of_the_thread_surfaces(tmp_path):
    class Broken(ModelName):
        def __str__(self):
            raise MemoryError("no room to hash")

    journal = journals.create(tmp_path / "run.db")
    journal.append([committed(1, Broken({}))])
    with pytest.raises(MemoryError, match="no room to hash"):
        journal.flush()
    with pytest.raises(MemoryError, match="no room to hash"):
        journal.close()


def test_a_run_with_a_large_model_has_the_digest_of_its_rows(tmp_path):
    wide = {"w": np.zeros(1 << 15, np.float32)}
    toy = consensus()

    def local(job, dataset):
        return Report(job.task, job.client, {"w": np.full(1 << 15, job.client, np.float32)}, 1.0, {})

    plan = toy_plan(commits_at(3, 2), 6, algorithm=replace(toy, local=lambda client, settings: local), stop=Stop(rounds=8))
    plan = replace(plan, params=wide)
    journal, watched = journals.create(tmp_path / "run.db"), []
    simulate(plan, world_of(even_fleet(6)), opaque_executor(), journal=journal, watch=watched.extend)
    journal.close()
    names = [e.model_hash for e in watched if isinstance(e, ModelCommitted)]
    assert len(names) == 8
    assert all(isinstance(name, ModelName) and name.is_computed for name in names)
    assert [e.model_hash for e in journals.read(tmp_path / "run.db") if isinstance(e, ModelCommitted)] == names
    again = journals.memory_journal()
    again.append(watched)
    assert again.digest == journal.digest == journals.digest_of(tmp_path / "run.db")


class _Interrupted(list):
    def clear(self):
        raise KeyboardInterrupt


def test_an_interrupt_in_the_midst_of_writing_leaves_a_sound_journal(tmp_path):
    log, _ = events_of(toy_plan(commits_at(3, 2), 5), world_of(even_fleet(5)))
    journal = journals.create(tmp_path / "run.db")
    journal.append(log[:10])
    journal._batch = _Interrupted(journal._batch)

    def written():
        try:
            journal.flush()
        finally:
            journal.close()

    with pytest.raises(KeyboardInterrupt):
        written()
    assert len(list(journals.read(tmp_path / "run.db"))) == 10
    assert journals.check_journal(tmp_path / "run.db").fault is None


def test_rows_from_a_number_on(tmp_path):
    path = tmp_path / "run.db"
    journal = journals.create(path)
    for word in ("one", "two", "three"):
        journal.remark(word)
    journal.flush()
    assert [(n, row[9]) for n, row in journals.rows_from(path, 2, 10)] == [(2, "two"), (3, "three")]
    assert [n for n, _ in journals.rows_from(path, 2, 10, (1,))] == [2]  # of no kind that was asked, but the mark itself
    assert len(journals.rows_from(path, 1, 2)) == 2
    journal.close()
