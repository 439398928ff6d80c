"""`fedfleet verify` and `--sign` on the command line."""

import json

from tests.app.specs import refused, written
from tests.store.test_signatures import key_file


def test_a_run_is_signed_and_verified(tmp_path, fedfleet):
    key = key_file(tmp_path)
    assert fedfleet("run", written(tmp_path), "--out", tmp_path / "out", "--sign", key)[0] == 0
    code, printed, _ = fedfleet("verify", tmp_path / "out", "--signer", tmp_path / "key.pub", "--json")
    result = json.loads(printed)
    assert code == 0 and {"sealed", "signed_by", "verified", "not_verified"} <= result.keys()
    assert result["signed_by"].startswith("SHA256:")
    assert "is sealed, signed by SHA256:" in fedfleet("verify", tmp_path / "out")[1]


def test_a_folder_without_a_run_is_refused(tmp_path, fedfleet):
    refused(fedfleet("verify", tmp_path), "no journal")
    refused(fedfleet("verify", tmp_path / "none"), "no run folder")
