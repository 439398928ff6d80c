"""A run folder as it lies there: whether its seals hold, and whose signature it carries. Nothing is run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.app.runs.stored_measures import read_measures
from fedfleet.core.errors import BadInput, RunFailed, nearest_file
from fedfleet.core.events import Event, ModelCommitted, RunBegan
from fedfleet.core.trees import content_hash
from fedfleet.simulation.audit_record import Numbered
from fedfleet.store import journal as journals
from fedfleet.store.files import DamagedFile, load_tree
from fedfleet.store.hash_chain import ChainCheck
from fedfleet.store.journal_checks import read_events
from fedfleet.store.seals import Seal, first_addition, first_change, identity_change, kind_of, read_seal
from fedfleet.store.signatures import fingerprint, signer_of


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run folder as it lies there: its rows, how far their chain holds, and its seal if the run is finished."""

    folder: Path
    rows: list[Numbered]
    chain: ChainCheck
    seal: Seal | None
    served: bool


def require_folder(folder: Path) -> None:
    """Refuse the folder of a run that is not there, or that is no folder."""
    if folder.is_file():
        raise BadInput(f"{folder} is a file; name the folder of a run")
    if not folder.is_dir():
        raise BadInput(f"there is no run folder {folder}{nearest_file(folder)}")


def stored_measures(folder: Path) -> dict[str, Any]:
    """The measures that lie in a run folder, as they lie there; none where there are none, or where they cannot be read."""
    try:
        return read_measures(folder)
    except (OSError, ValueError):
        return {}


def open_record(folder: Path) -> RunRecord:
    """Read a run folder as it lies there."""
    require_folder(folder)
    path = folder / "run.db"
    if not path.is_file():
        raise BadInput(f"there is no journal at {path}; name the folder of a run")
    seal = read_seal(folder)
    if seal is not None:  # before the file is opened: SQLite would apply what lies beside it
        extra = first_addition(folder, seal)
        if extra is not None:
            raise RunFailed(f"{folder}: {extra}")
    chain, rows = journals.check_journal(path), journals.numbered_rows(path)
    if not rows:
        raise BadInput(f"the journal in {folder} is empty, so there is nothing to replay; continue the run first")
    return RunRecord(folder, rows, chain, seal, kind_of(journals.identity_of(path)) == "served")


def check_chain(run: RunRecord) -> None:
    """The journal against its links, and against what was sealed at the end."""
    if run.chain.fault is not None:
        raise RunFailed(f"{run.folder}/run.db was changed after it was written: {run.chain.fault}")
    seal, chain = run.seal, run.chain
    if seal is not None and (seal.digest, seal.rows, seal.link) != (chain.digest, chain.rows, chain.link):
        raise RunFailed(
            f"{run.folder}/run.db is not the journal that was sealed: digest, rows or last link differ from {run.folder}/seal.json"
        )
    if seal is not None and (wrong := first_change(run.folder, seal, ("run.db",))):
        raise RunFailed(f"{run.folder}: {wrong}, but its rows are intact")


def check_files(run: RunRecord) -> None:
    """Everything but the journal: against the seal, and against what the journal began with."""
    seal = run.seal
    if seal is not None:
        wrong = first_change(run.folder, seal, seal.files.keys() - {"run.db"})
        if wrong is not None:
            raise RunFailed(f"{run.folder}: {wrong}")
    wrong = identity_change(run.folder, journals.identity_of(run.folder / "run.db"))
    if wrong is not None:
        raise RunFailed(f"{run.folder}: {wrong}")


def check_model(run: RunRecord, events: Iterable[Event]) -> str:
    """The content hash of the stored model, which must be the last one of the journal."""
    names = [str(e.model_hash) for e in events if isinstance(e, ModelCommitted | RunBegan)]
    result = stored_model_hash(run.folder)
    if not names or result != names[-1]:
        raise RunFailed(f"{run.folder}/model.safetensors is not the last model in the journal; the file or the journal was changed")
    return result


def stored_model_hash(folder: Path) -> str:
    """The content hash of the model in a run folder."""
    try:
        return content_hash(load_tree(folder / "model.safetensors")[0])
    except DamagedFile as error:
        raise RunFailed(str(error)) from None


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
        check_model(run, read_events(run.rows))
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
        raise RunFailed(f"{folder} is not signed, but must be signed by {expected}")
    if signed_by != expected:
        raise RunFailed(f"{folder} is signed by {signed_by}, not by {expected}")


def verification_text(answer: dict[str, Any]) -> str:
    """What the seals of a run prove."""
    sealed = "sealed" if answer["sealed"] else "not sealed yet: the run has not ended"
    signed = (
        f"signed by {answer['signed_by']}"
        if answer["signed_by"]
        else "not signed: write access is enough to change it and seal it again"
    )
    return (
        f"{answer['out']} is {sealed}, {signed}\nunchanged: {', '.join(answer['verified'])}\n"
        f"not verified: {', '.join(answer['not_verified'])}\ndigest {answer['digest'][:16]}"
    )
