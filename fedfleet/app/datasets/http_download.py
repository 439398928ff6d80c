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
