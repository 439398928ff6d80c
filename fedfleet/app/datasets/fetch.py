"""Fetching a dataset into a folder of its own: every file is checked, and is there whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedfleet.app.datasets.catalogue import DATASETS, RemoteFile
from fedfleet.app.datasets.http_download import TransferBroken, Watch, complete_file, forget
from fedfleet.app.terminal.text import size
from fedfleet.core.errors import BadInput, RunFailed, suggest_name


def fetch_dataset(name: str, to: Path | None = None, *, quiet: bool = False) -> dict[str, Any]:
    """Fetch a dataset into its own folder under `to` (default: $FEDFLEET_DATA, else ./data), and report what was checked."""
    if name not in DATASETS:
        raise BadInput(f"there is no dataset called {name!r}{suggest_name(name, DATASETS)}")
    folder = (to or Path(os.environ.get("FEDFLEET_DATA") or "data")) / name
    try:
        with _progress_bar(quiet) as watch:
            files = [fetch_file(file, folder / file.name, watch) for file in DATASETS[name].files]
    except TransferBroken as error:
        raise RunFailed(f"{error}; to resume: fedfleet data {name} --to {shlex.quote(str(folder.parent))}") from None
    except OSError as error:
        raise BadInput(f"cannot write to {folder}: {error}; choose another folder with --to") from None
    use = [words.format(at=folder) for words in DATASETS[name].use]
    return {"name": name, "folder": str(folder), "terms": DATASETS[name].terms, "files": files, "use": use}


def fetch_text(answer: dict[str, Any]) -> str:
    """Which files are there now, how they were checked, and how to use them."""
    lines = []
    for f in answer["files"]:
        status = "fetched" if f["fetched_bytes"] else "already there"
        lines += [f"{f['file']}: {size(f['bytes'])}, {status}, {f['checked']}", f"    sha256 {f['sha256']}"]
    return "\n".join([*lines, f"terms: {answer['terms']}", *(f"use as {words}" for words in answer["use"])])


def fetch_file(file: RemoteFile, target: Path, watch: Watch | None = None) -> dict[str, Any]:
    """Download one file to `target`.part, check it, and move it to `target`; a correct file that is there is kept."""
    if target.exists():
        digest = _sha256(target)
        if why := _mismatch(file, target, digest):
            raise BadInput(f"{target} exists, but {why}; move it away, or choose another folder with --to")
        return _report(file, target, digest, fetched=0)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    fetched = complete_file(file, part, watch)
    digest = _sha256(part)
    if why := _mismatch(file, part, digest):
        forget(part)  # nothing to resume: these bytes are wrong
        raise RunFailed(f"{file.url} is not the expected file: {why}; the download was not kept")
    part.replace(target)
    forget(part)
    return _report(file, target, digest, fetched=fetched)


def _mismatch(file: RemoteFile, path: Path, digest: str) -> str | None:
    """Why this is not the file, or None."""
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        return f"it has {size:,} bytes instead of {file.size:,}"
    if file.sha256 is not None and digest != file.sha256:
        return f"its SHA-256 is {digest} instead of {file.sha256}"
    return None


def _report(file: RemoteFile, target: Path, digest: str, *, fetched: int) -> dict[str, Any]:
    """The entry of a file in the answer; its hash is shown even if the right one is not known, so that people can compare."""
    size_check = "size right" if file.size is not None else "size not known"
    hash_check = "hash right" if file.sha256 is not None else "hash not known"
    return {
        "file": str(target),
        "bytes": target.stat().st_size,
        "fetched_bytes": fetched,
        "sha256": digest,
        "checked": f"{size_check}, {hash_check}",
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _progress_bar(quiet: bool) -> Iterator[Watch | None]:
    """A progress bar on standard error with one line per file; None if standard error is not a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def watch(file: RemoteFile, done: int, total: int | None) -> None:
            if file.url not in tasks:
                tasks[file.url] = bar.add_task(file.name)
            bar.update(tasks[file.url], completed=done, total=total)

        yield watch
