"""Verifying a run without running anything: its seals, its chain, and whose signature it carries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedfleet.app.runs.folder_seals import check_chain, check_files, check_model, open_record
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.store.journal_rows import decode
from fedfleet.store.signatures import fingerprint, signer_of


def verify_run(folder: Path, signer: Path | None = None) -> dict[str, Any]:
    """What the seals of a run folder prove. No code of the run is executed. `signer` is the public key that must have signed."""
    run = open_record(folder)
    check_chain(run)
    check_files(run)
    seal = run.seal
    signed_by = signer_of(seal.message(), seal.signature) if seal is not None and seal.signature else None
    if signer is not None:
        _check_signer(folder, signer, signed_by)
    verified = ["journal", "spec.toml", "executor.json"]
    if seal is not None:
        check_model(run, decode(row for _, row in run.rows))
        verified = ["journal", *(name for name in sorted(seal.files) if name != "run.db")]
    return {
        "sealed": seal is not None,
        "signed_by": signed_by,
        "verified": verified,
        "not_verified": ["that it was run as it says: fedfleet replay does"],
        "digest": run.chain.digest,
        "out": str(folder),
    }


def _check_signer(folder: Path, signer: Path, signed_by: str | None) -> None:
    try:
        expected = fingerprint(signer.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise BadInput(f"--signer: cannot read {signer}: {error}") from None
    if signed_by is None:
        raise RunFailed(f"{folder} is not signed; it was to be signed by {expected}")
    if signed_by != expected:
        raise RunFailed(f"{folder} is signed by {signed_by}, not by {expected}")
