"""Transferring one file over HTTP, so that an interrupted transfer can go on from where it stopped."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedfleet.app.datasets.catalogue import RemoteFile
from fedfleet.core.errors import RunFailed

CHUNK_BYTES = 1 << 18
SILENCE_SECONDS = 30.0  # a server that sends nothing for this long is given up
LARGEST_BYTES = 4 << 30  # of a file whose size is not known

# Called with a file, the bytes received so far, and the total where that is known.
Watch = Callable[[RemoteFile, int, int | None], None]


class TransferBroken(RunFailed):
    """A transfer that can go on later from where it stopped."""


def complete(file: RemoteFile, part: Path, watch: Watch | None) -> int:
    """Complete the part file, from where an earlier attempt ended; returns how many bytes were transferred."""
    have, tag = (part.stat().st_size if part.exists() else 0), _tag(part)
    if have and have == file.size:
        return 0
    # Without hash and tag, nothing would reveal that the rest comes from another version of the file.
    if (file.size is not None and have > file.size) or not (file.sha256 or tag):
        have = 0
    with _answer(file, have, tag) as answer:
        if answer.status != 206:  # servers may send the whole file instead
            have = 0
        elif not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise RunFailed(f"{file.url} sent another part of the file than was asked for")
        length = answer.headers.get("Content-Length", "")
        whole = have + int(length) if length.isdecimal() else None
        if whole is not None and whole != (file.size or whole):
            raise RunFailed(f"{file.url} is not the expected file: it has {whole:,} bytes instead of {file.size:,}")
        _keep_tag(part, answer.headers.get("ETag"))
        return _receive(file, answer, part, have, whole or file.size, watch)


def _answer(file: RemoteFile, have: int, tag: str | None) -> Any:
    """The server's answer to a request for the file from byte `have` on."""
    request = urllib.request.Request(file.url, headers={"User-Agent": "fedfleet"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        if tag:
            request.add_header("If-Range", tag)
    try:
        return urllib.request.urlopen(request, timeout=SILENCE_SECONDS)
    except urllib.error.HTTPError as wrong:
        wrong.close()
        if wrong.code == 416 and have:  # the part is no shorter than the file: it is of another version
            return _answer(file, 0, None)
        kind = TransferBroken if wrong.code >= 500 else RunFailed
        raise kind(f"{file.url} answers {wrong.code} {wrong.reason}") from None
    except (OSError, http.client.HTTPException) as wrong:
        raise TransferBroken(f"{file.url} cannot be reached: {getattr(wrong, 'reason', wrong)}") from None


def _receive(file: RemoteFile, answer: Any, part: Path, have: int, whole: int | None, watch: Watch | None) -> int:
    """Write the answer after the first `have` bytes of the part file; returns how many bytes came."""
    done, most = have, LARGEST_BYTES if whole is None else whole
    with part.open("r+b" if have else "wb") as opened:
        opened.seek(have)
        while done <= most and (chunk := _chunk(file, answer, done)):
            opened.write(chunk)
            done += len(chunk)
            if watch:
                watch(file, done, whole)
        opened.flush()
        os.fsync(opened.fileno())
    if done > most:
        forget(part)
        raise RunFailed(f"{file.url} sends more than {most:,} bytes, so it is not the expected file")
    if whole is not None and done < whole:
        raise TransferBroken(f"{file.url}: the connection ended after {done:,} of {whole:,} bytes")
    return done - have


def _chunk(file: RemoteFile, answer: Any, done: int) -> bytes:
    try:
        return answer.read(CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as wrong:
        raise TransferBroken(f"{file.url}: the connection broke after {done:,} bytes ({wrong})") from None


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
