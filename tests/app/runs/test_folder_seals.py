"""Opening a run folder: what its seals say before anything is run."""

import pytest

from fedfleet.app.runs.folder_seals import check_chain, check_files, open_record, stored_measures, stored_model_hash
from fedfleet.core.errors import BadInput, RunFailed


def test_a_finished_run_opens_and_its_seals_hold(tiny_run):
    record = open_record(tiny_run.out)
    check_chain(record)
    check_files(record)
    assert not record.served and record.seal.rows == len(record.rows)
    assert len(stored_model_hash(tiny_run.out)) == 64


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no run folder"):
        open_record(tmp_path / "none")
    with pytest.raises(BadInput, match="no journal"):
        open_record(tmp_path)


def test_measures_that_are_not_there_or_no_table_are_none(tiny_run, tmp_path):
    assert stored_measures(tiny_run.out)["digest"] == tiny_run.metrics["digest"]
    for text in (None, "", "{", "[1]", '"x"', b"\xff"):
        if text is not None:
            (tmp_path / "metrics.json").write_bytes(text if isinstance(text, bytes) else text.encode())
        assert stored_measures(tmp_path) == {}


def test_a_seal_that_tells_of_another_journal_is_found(run_copy):
    text = (run_copy / "seal.json").read_text()
    rows = len(open_record(run_copy).rows)
    (run_copy / "seal.json").write_text(text.replace(f'"rows": {rows}', f'"rows": {rows + 1}'))
    with pytest.raises(RunFailed, match="is not the journal that was sealed"):
        check_chain(open_record(run_copy))
    (run_copy / "model.safetensors").write_bytes(b"")
    with pytest.raises(RunFailed, match="cannot be read"):
        stored_model_hash(run_copy)
