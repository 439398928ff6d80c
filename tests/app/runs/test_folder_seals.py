"""Opening a run folder: what its seals say before anything is run."""

import pytest

from fedfleet.app.runs import perform
from fedfleet.app.runs.folder_seals import (
    check_chain,
    check_files,
    open_record,
    stored_measures,
    stored_model_hash,
    verify_run,
)
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.store.signatures import fingerprint
from tests.app.runs.flipping import killed_run
from tests.app.runs.tampering import LIES, SPEC, tampered
from tests.store.test_signatures import key_file


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


def test_a_signed_run_says_who_signed_it_and_no_forger_can(tmp_path):
    mine, other = key_file(tmp_path), key_file(tmp_path, name="other")
    done = perform(resolve(SPEC), tmp_path / "out", key=mine)
    result = verify_run(done.out, tmp_path / "key.pub")
    assert result["sealed"] and result["signed_by"] == fingerprint((tmp_path / "key.pub").read_text())
    assert {"journal", "spec.toml", "model.safetensors", "metrics.json"} <= set(result["verified"])
    assert replay_run(done.out)["ok"]
    with pytest.raises(RunFailed, match=r"is signed by .* not by"):
        verify_run(done.out, tmp_path / f"{other.name}.pub")
    forged = tampered(done.out, tmp_path / "forged", LIES["a better accuracy"], sealed=True)
    with pytest.raises(RunFailed, match="is not signed, but must be signed by"):
        verify_run(forged, tmp_path / "key.pub")


def test_a_key_that_cannot_sign_stops_before_anything_is_trained(tmp_path):
    with pytest.raises(BadInput, match="--sign"):
        perform(resolve(SPEC), tmp_path / "out", key=tmp_path / "none")
    assert not (tmp_path / "out").exists()


def test_a_run_that_goes_on_is_not_sealed_yet(tmp_path):
    folder = killed_run(SPEC, tmp_path / "out", 3)
    result = verify_run(folder)
    assert not result["sealed"] and result["signed_by"] is None
    with pytest.raises(BadInput, match="--signer"):
        verify_run(folder, tmp_path / "none.pub")
