"""Fetch public datasets from their homes: checked, resumable, and whole or not there at all."""

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.app.show import size
from fedfleet.core.errors import BadInput, RunFailed, nearest

CHUNK_BYTES = 1 << 18
SILENCE_SECONDS = 30.0  # a server that says nothing for so long is given up
LARGEST_BYTES = 4 << 30  # of a file whose size is not known


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file: where it will lie in the dataset's folder, where it comes from, and what is known of it."""

    name: str
    url: str
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """Files that belong together; `use` says how to name them to FedFleet, with {at} for the folder."""

    summary: str
    terms: str
    files: tuple[RemoteFile, ...]
    use: tuple[str, ...] = ()


_GITHUB = "https://raw.githubusercontent.com"
_FEDSCALE = f"{_GITHUB}/SymbioticLab/FedScale/master/benchmark/dataset/data/device_info"
_FLASH = f"{_GITHUB}/PKU-Chengxu/FLASH/HEAD"
_FLHETBENCH = f"{_GITHUB}/Carkham/FLHetBench/HEAD"
_CASES = f"{_FLHETBENCH}/bench/cached_sample_data"
_CAPACITY_SHA = "477f61049443987318fc5667cafa059b3b420eb0e03ccb5ceb3262d20e059e53"
_BEHAVIOUR_SHA = "d0b6f81a01f0ea5f7ec432583f5afe93b1e72424db4c1affa88c484f15901662"

DATASETS: dict[str, Dataset] = {
    "fedscale": Dataset(
        "computing and link speed of 500,000 phones, charging times of 107,749",
        "Apache-2.0; cite FedScale, AI-Benchmark, MobiPerf and FLASH",
        (
            RemoteFile("client_device_capacity", f"{_FEDSCALE}/client_device_capacity", 39_369_071, _CAPACITY_SHA),
            RemoteFile("client_behave_trace", f"{_FEDSCALE}/client_behave_trace", 25_640_150, _BEHAVIOUR_SHA),
        ),
        ("fedscale:{at}",),
    ),
    "flash": Dataset(
        "AI-Benchmark scores of 333 phones, speeds of 19 WiFi users, state traces of 1,000 phones",
        "BSD-2-Clause; cite FLASH",
        (
            RemoteFile("speed_distri.json", f"{_FLASH}/models/speed_distri.json", 3_441),
            *(
                RemoteFile(name, f"{_FLASH}/models/utils/device_util/{name}", n)
                for name, n in (("raw_ai_benchmark_list.json", 169_981), ("benchmark2score.json", 8_211))
            ),
            RemoteFile("state_traces.json", f"{_FLASH}/data/state_traces.json"),
        ),
        ("flash:{at}",),
    ),
    "flhetbench": Dataset(
        "four device cases and four state cases of 100 clients, the 1,000 cached timers, training latencies",
        "no licence stated; the device cases hold MobiPerf's records with places and network names: do not pass them on",
        (
            *(
                RemoteFile(f"device/case{i}.json", f"{_CASES}/device/case{i}.json", n)
                for i, n in enumerate((169_865, 166_903, 169_241, 169_766), 1)
            ),
            *(
                RemoteFile(f"state/state_case{i}.json", f"{_CASES}/state/case{i}.json", n)
                for i, n in enumerate((629, 695, 679, 693), 1)
            ),
            RemoteFile("state/cached_timers.json", f"{_FLHETBENCH}/data/cached_timers.json", 881_628),
            RemoteFile("latency/training_latency.json", f"{_FLHETBENCH}/data/training_latency.json", 113_200),
        ),
        ("flhetbench:{at}/device/case1.json", "flhetbench:{at}/state/cached_timers.json#{at}/state/state_case1.json"),
    ),
}

# Called with a file, the bytes that are there, and the bytes that there will be where that is known.
Watch = Callable[[RemoteFile, int, int | None], None]


class _Interrupted(RunFailed):
    """A transfer that can go on later from where it stopped."""


def listed() -> dict[str, Any]:
    """What can be fetched."""
    return {
        "datasets": [
            {
                "name": name,
                "summary": dataset.summary,
                "terms": dataset.terms,
                "files": [{"name": f.name, "url": f.url, "bytes": f.size, "sha256": f.sha256} for f in dataset.files],
            }
            for name, dataset in DATASETS.items()
        ]
    }


def fetch_dataset(name: str, to: Path | None = None, *, quiet: bool = False) -> dict[str, Any]:
    """Fetch a dataset into its own folder under `to` (default $FEDFLEET_DATA, else ./data), and say what was checked."""
    if name not in DATASETS:
        raise BadInput(f"there is no dataset called {name!r}{nearest(name, DATASETS)}")
    folder = (to or Path(os.environ.get("FEDFLEET_DATA") or "data")) / name
    try:
        with _bar(quiet) as watch:
            files = [fetch_file(file, folder / file.name, watch) for file in DATASETS[name].files]
    except _Interrupted as wrong:
        raise RunFailed(f"{wrong}; to resume: fedfleet data {name} --to {shlex.quote(str(folder.parent))}") from None
    except OSError as wrong:
        raise BadInput(f"{folder} cannot be written: {wrong}; choose another folder with --to") from None
    use = [words.format(at=folder) for words in DATASETS[name].use]
    return {"name": name, "folder": str(folder), "terms": DATASETS[name].terms, "files": files, "use": use}


def fetch_file(file: RemoteFile, target: Path, watch: Watch | None = None) -> dict[str, Any]:
    """Bring one file to `target`, by way of `target`.part, and check it; one that is there and right stays as it is."""
    if target.exists():
        digest = _sha256(target)
        if why := _mismatch(file, target, digest):
            raise BadInput(f"{target} is there, but {why}; move it away, or choose another folder with --to")
        return _told(file, target, digest, fetched=0)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    fetched = _complete(file, part, watch)
    digest = _sha256(part)
    if why := _mismatch(file, part, digest):
        _forget(part)  # there is nothing to resume: these bytes are wrong
        raise RunFailed(f"{file.url} is not the file that is expected: {why}; nothing of it was kept")
    part.replace(target)
    _forget(part)
    return _told(file, target, digest, fetched=fetched)


def _mismatch(file: RemoteFile, path: Path, digest: str) -> str | None:
    """Why this is not the file, or None."""
    found = path.stat().st_size
    if file.size is not None and found != file.size:
        return f"it has {found:,} bytes instead of {file.size:,}"
    if file.sha256 is not None and digest != file.sha256:
        return f"its SHA-256 is {digest} instead of {file.sha256}"
    return None


def _told(file: RemoteFile, target: Path, digest: str, *, fetched: int) -> dict[str, Any]:
    """What the answer says of a file that is there; a hash that nobody knows is still shown, for people to compare."""
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
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _complete(file: RemoteFile, part: Path, watch: Watch | None) -> int:
    """Bring the part file to its full length, from where an earlier attempt ended; how many bytes that took."""
    have, tag = (part.stat().st_size if part.exists() else 0), _tag(part)
    if have and have == file.size:
        return 0
    # Without hash and tag nothing would show that the rest comes from another version of the file.
    if (file.size is not None and have > file.size) or not (file.sha256 or tag):
        have = 0
    with _answer(file, have, tag) as answer:
        if answer.status != 206:  # servers may send the whole file instead
            have = 0
        elif not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise RunFailed(f"{file.url} answers with another part of the file than was asked for")
        length = answer.headers.get("Content-Length", "")
        whole = have + int(length) if length.isdecimal() else None
        if whole is not None and whole != (file.size or whole):
            raise RunFailed(
                f"{file.url} is not the file that is expected: it has {whole:,} bytes instead of {file.size:,}"
            )
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
        kind = _Interrupted if wrong.code >= 500 else RunFailed
        raise kind(f"{file.url} answers {wrong.code} {wrong.reason}") from None
    except (OSError, http.client.HTTPException) as wrong:
        raise _Interrupted(f"{file.url} cannot be reached: {getattr(wrong, 'reason', wrong)}") from None


def _receive(file: RemoteFile, answer: Any, part: Path, have: int, whole: int | None, watch: Watch | None) -> int:
    """Write the answer behind the first `have` bytes of the part file; how many bytes came."""
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
        _forget(part)
        raise RunFailed(f"{file.url} sends more than {most:,} bytes: it is not the file that is expected")
    if whole is not None and done < whole:
        raise _Interrupted(f"{file.url}: the connection ended after {done:,} of {whole:,} bytes")
    return done - have


def _chunk(file: RemoteFile, answer: Any, done: int) -> bytes:
    try:
        return answer.read(CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as wrong:
        raise _Interrupted(f"{file.url}: the connection broke after {done:,} bytes ({wrong})") from None


def _tag_file(part: Path) -> Path:
    return part.with_name(part.name + ".etag")


def _tag(part: Path) -> str | None:
    """The server's name for the version that the part file belongs to."""
    return _tag_file(part).read_text() if _tag_file(part).exists() else None


def _keep_tag(part: Path, tag: str | None) -> None:
    """Note the version; a weak tag is not kept, because it does not promise equal bytes."""
    if tag and tag.startswith('"'):
        _tag_file(part).write_text(tag)
    else:
        _tag_file(part).unlink(missing_ok=True)


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _tag_file(part).unlink(missing_ok=True)


@contextmanager
def _bar(quiet: bool) -> Iterator[Watch | None]:
    """A progress bar on standard error, one line a file; None when nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def watch(file: RemoteFile, done: int, whole: int | None) -> None:
            if file.url not in tasks:
                tasks[file.url] = bar.add_task(file.name)
            bar.update(tasks[file.url], completed=done, total=whole)

        yield watch


def shown_datasets(answer: dict[str, Any]) -> str:
    """The list for people."""
    lines = []
    for d in answer["datasets"]:
        known = size(sum(f["bytes"] or 0 for f in d["files"]))
        more = "" if all(f["bytes"] for f in d["files"]) else " and more"
        lines += [f"{d['name']:<12} {d['summary']}", f"{'':<12} {len(d['files'])} files, {known}{more}; {d['terms']}"]
    return "\n".join([*lines, "fetch one with: fedfleet data NAME"])


def shown_fetch(answer: dict[str, Any]) -> str:
    """What is there now, how far it was checked, and how to use it."""
    lines = []
    for f in answer["files"]:
        came = "fetched" if f["fetched_bytes"] else "was there"
        lines += [f"{f['file']}: {size(f['bytes'])}, {came}, {f['checked']}", f"    sha256 {f['sha256']}"]
    return "\n".join([*lines, f"terms: {answer['terms']}", *(f"use as {words}" for words in answer["use"])])
