"""The seal of a finished run: the hash of every file, the journal's digest, rows and last link, and perhaps a signature.

Whoever can write the folder can also seal it anew. What a seal proves is that nothing changed since; who sealed it, only a
signature proves; and that a simulation is true, only a replay that runs it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.core.errors import BadInput
from fedfleet.core.json_text import parse_json
from fedfleet.store.files import file_hash, write_atomically
from fedfleet.store.lock import LOCK

SEAL = "seal.json"
_FORMAT = "fedfleet/seal@1"
# Pages are drawn from the rest, and can be drawn again at any time. Counterfactuals are runs of their own, each with its seal.
_UNSEALED = {SEAL, LOCK, "report.html", "explain.html"}
COUNTERFACTUALS = "counterfactuals"


@dataclass(frozen=True, slots=True)
class Seal:
    """What a finished run was sealed with."""

    digest: str
    rows: int
    link: str
    files: Mapping[str, str]
    signature: Mapping[str, str] | None = None

    def body(self) -> dict[str, Any]:
        """Everything but the signature."""
        return {"format": _FORMAT, "digest": self.digest, "rows": self.rows, "link": self.link, "files": dict(self.files)}

    def message(self) -> bytes:
        """What a signature is made over."""
        return json.dumps(self.body(), sort_keys=True, separators=(",", ":")).encode()


def files_of(folder: Path) -> list[str]:
    """The files of a run that a seal covers, by their path inside the folder."""
    files = (p for p in folder.rglob("*") if p.is_file() and p.suffix != ".part")
    names = sorted(p.relative_to(folder).as_posix() for p in files)
    return [n for n in names if n not in _UNSEALED and not n.startswith(f"{COUNTERFACTUALS}/")]


def hashes(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """SHA-256 of these files."""
    return {name: file_hash(folder / name) for name in names}


def identity(folder: Path, kind: str = "simulated") -> str:
    """What a run began with, as the text that its journal's chain begins with: its spec, how it computes, its own model."""
    own_files = [n for n in files_of(folder) if n.startswith("own/")]
    names = [n for n in ("spec.toml", "executor.json", *own_files) if (folder / n).is_file()]
    return json.dumps({"kind": kind, "files": hashes(folder, names)}, sort_keys=True)


def identity_change(folder: Path, recorded: str) -> str | None:
    """Which of the files that a run began with is not as it was, in words; None: all are."""
    if recorded == identity(folder, kind_of(recorded)):
        return None
    try:
        files = parse_json(recorded)["files"]
        now = parse_json(identity(folder))["files"]
        changed_name = next((name for name in sorted({*files, *now}) if files.get(name) != now.get(name)), "run.db")
    except (ValueError, KeyError, TypeError):
        return "run.db does not say what the run began with"
    how = "is missing" if changed_name not in now else "was added" if changed_name not in files else "was changed"
    return f"{changed_name} {how} after the run began"


def kind_of(recorded: str) -> str:
    """Whether the run of this identity was simulated or served."""
    try:
        return str(parse_json(recorded)["kind"])
    except (ValueError, KeyError, TypeError):
        return "unknown"


def write_seal(folder: Path, seal: Seal) -> None:
    """Write the seal; its presence says that the run is complete."""
    body = seal.body() | ({"signature": dict(seal.signature)} if seal.signature else {})
    write_atomically(folder / SEAL, (json.dumps(body, indent=1) + "\n").encode())


def read_seal(folder: Path) -> Seal | None:
    """The seal of a folder; None if it has none."""
    path = folder / SEAL
    if not path.is_file():
        return None
    try:
        body = parse_json(path.read_bytes())
        if body["format"] != _FORMAT:
            raise ValueError(f"its format is {body['format']!r}")
        files, signature = body["files"], body.get("signature")
        texts = [body["digest"], body["link"], *files, *files.values()]
        texts += [] if signature is None else [signature["key"], signature["signature"]]
        if not all(isinstance(t, str) for t in texts) or type(body["rows"]) is not int:
            raise ValueError("unexpected content")
        return Seal(body["digest"], body["rows"], body["link"], files, signature)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path} is damaged ({error}); the run cannot be checked without it") from None


def first_change(folder: Path, seal: Seal, names: Iterable[str] | None = None) -> str | None:
    """The first of these files that is not as it was sealed, in words; None: all are. Without names: all, and none beside them."""
    selection = None if names is None else set(names)
    for name, expected in seal.files.items():
        if selection is not None and name not in selection:
            continue
        if not (folder / name).is_file():
            return f"{name} is missing"
        if file_hash(folder / name) != expected:
            return f"{name} was changed after it was sealed"
    return None if selection is not None else first_addition(folder, seal)


def first_addition(folder: Path, seal: Seal) -> str | None:
    """The first file that the seal does not know, in words. What lies beside the journal would be applied to it by SQLite."""
    wal_files = [n for n in ("run.db-wal", "run.db-journal") if (folder / n).is_file() and (folder / n).stat().st_size]
    others = sorted(set(files_of(folder)) - {"run.db-wal", "run.db-shm", "run.db-journal"})
    extra = next((name for name in (*wal_files, *others) if name not in seal.files), None)
    return None if extra is None else f"{extra} was added after the run was sealed"
