"""Verifying: seals and signatures, without running anything."""

import pytest

from fedfleet.app.runs import perform
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.runs.verification import verify_run
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.store.signatures import fingerprint
from tests.app.runs.flipping import killed_run
from tests.app.runs.tampering import LIES, SPEC, tampered
from tests.store.test_signatures import key_file


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
    with pytest.raises(RunFailed, match="is not signed; it was to be signed by"):
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
