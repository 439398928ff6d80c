"""Fetching a dataset into a folder of its own: every file is checked, and is there whole or not at all.

An interrupted transfer goes on from where it stopped.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shlex
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedfleet.app.datasets.catalogue import DATASETS, RemoteFile
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


CHUNK_BYTES = 1 << 18
SILENCE_SECONDS = 30.0  # a server that sends nothing for this long is given up
LARGEST_BYTES = 4 << 30  # of a file whose size is not known

# Called with a file, the bytes received so far, and the total where that is known.
Watch = Callable[[RemoteFile, int, int | None], None]


class TransferBroken(RunFailed):
    """A transfer that can go on later from where it stopped."""


def complete_file(file: RemoteFile, part: Path, watch: Watch | None) -> int:
    """Complete the part file, from where an earlier attempt ended; returns how many bytes were transferred."""
    offset, tag = (part.stat().st_size if part.exists() else 0), _tag(part)
    if offset and offset == file.size:
        return 0
    # Without hash and tag, nothing would reveal that the rest comes from another version of the file.
    if (file.size is not None and offset > file.size) or not (file.sha256 or tag):
        offset = 0
    with _open_url(file, offset, tag) as answer:
        if answer.status != 206:  # servers may send the whole file instead
            offset = 0
        elif not answer.headers.get("Content-Range", "").startswith(f"bytes {offset}-"):
            raise RunFailed(f"{file.url} sent a different part of the file than requested")
        length = answer.headers.get("Content-Length", "")
        total = offset + int(length) if length.isdecimal() else None
        if total is not None and total != (file.size or total):
            raise RunFailed(f"{file.url} is not the expected file: it has {total:,} bytes instead of {file.size:,}")
        _keep_tag(part, answer.headers.get("ETag"))
        return _receive(file, answer, part, offset, total or file.size, watch)


def _open_url(file: RemoteFile, offset: int, tag: str | None) -> Any:
    """The server's answer to a request for the file from byte `have` on."""
    request = urllib.request.Request(file.url, headers={"User-Agent": "fedfleet"})
    if offset:
        request.add_header("Range", f"bytes={offset}-")
        if tag:
            request.add_header("If-Range", tag)
    try:
        return urllib.request.urlopen(request, timeout=SILENCE_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and offset:  # the part is no shorter than the file: it is of another version
            return _open_url(file, 0, None)
        kind = TransferBroken if error.code >= 500 else RunFailed
        raise kind(f"{file.url} answers {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise TransferBroken(f"{file.url} cannot be reached: {getattr(error, 'reason', error)}") from None


def _receive(file: RemoteFile, answer: Any, part: Path, offset: int, total: int | None, watch: Watch | None) -> int:
    """Write the answer after the first `have` bytes of the part file; returns how many bytes came."""
    done, most = offset, LARGEST_BYTES if total is None else total
    with part.open("r+b" if offset else "wb") as output:
        output.seek(offset)
        while done <= most and (chunk := _chunk(file, answer, done)):
            output.write(chunk)
            done += len(chunk)
            if watch:
                watch(file, done, total)
        output.flush()
        os.fsync(output.fileno())
    if done > most:
        forget(part)
        raise RunFailed(f"{file.url} sends more than {most:,} bytes, so it is not the expected file")
    if total is not None and done < total:
        raise TransferBroken(f"{file.url}: the connection ended after {done:,} of {total:,} bytes")
    return done - offset


def _chunk(file: RemoteFile, answer: Any, done: int) -> bytes:
    try:
        return answer.read(CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise TransferBroken(f"{file.url}: the connection broke after {done:,} bytes ({error})") from None


def _tag_file(part: Path) -> Path:
    return part.with_name(part.name + ".etag")


def _tag(part: Path) -> str | None:
    """The server's tag (ETag) of the version that the part file belongs to."""
    return _tag_file(part).read_text(encoding="utf-8") if _tag_file(part).exists() else None


def _keep_tag(part: Path, tag: str | None) -> None:
    """Note the version; a weak tag is not kept, because it does not promise equal bytes."""
    if tag and tag.startswith('"'):
        _tag_file(part).write_text(tag, encoding="utf-8")
    else:
        _tag_file(part).unlink(missing_ok=True)


def forget(part: Path) -> None:
    """Delete a part file and its tag."""
    part.unlink(missing_ok=True)
    _tag_file(part).unlink(missing_ok=True)
