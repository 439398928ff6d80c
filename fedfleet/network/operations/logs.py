"""Keeps secrets out of what people read, and writes the log of a server: one JSON object a line in a private, rotated file, and
plain lines for people on standard error.

Every entry has time, level, run, process and text, and device, task and round where they are known. Texts are constant sentences,
and what varies is a fact of its own: so entries can be counted, and a flood of one sentence is cut off. Secrets are never
written: not by the names of facts, not as known values, not as what looks like one. Logging does not wait for the disk: a thread
writes."""

from __future__ import annotations

import base64
import json
import logging
import math
import os
import queue
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from typing import Any, Protocol, TextIO

from fedfleet.core.errors import printable
from fedfleet.network.server.options import Level

HIDDEN = "(hidden)"
MOST_TEXT = 300  # characters
# Facts whose value nobody may read, whatever it is; and those that are long and random and meant to be read.
_SECRET_NAMES = re.compile(r"secret|token|nonce|passw|key|evidence|authoriz|signature|credential", re.I)
_HASH_NAMES = frozenset({"blob", "digest", "frozen", "hash", "model"})
_LABELLED_SECRET = re.compile(r"(?i)\b((?:secret|token|nonce|password|key|authorization)\s*[=:]\s*|bearer\s+)[^\s,;)]+")
_LONG_WORD = re.compile(r"[A-Za-z0-9_+=-]{24,}")


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Text without what looks like a secret: known ones, `token=..`, and long words as only machines make them up.

    >>> without_secrets("token=abc was refused; so was 9f86d081884c7d659a2feaa0c55ad015")
    'token=(hidden) was refused; so was (hidden)'
    """
    for value in secrets:
        text = text.replace(value, HIDDEN)
    return _LONG_WORD.sub(_hide_if_random, _LABELLED_SECRET.sub(rf"\g<1>{HIDDEN}", text))


def clean_fact(name: str, value: object, secrets: Iterable[str] = ()) -> str | int | float | bool | None:
    """A named fact as it may be written: numbers as they are, text cleaned, bytes and objects by their kind only."""
    if _SECRET_NAMES.search(name):
        return HIDDEN
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return printable(value if name in _HASH_NAMES else without_secrets(value, secrets), MOST_TEXT)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{len(value)} bytes"
    return f"a {type(value).__name__}"


def clean_facts(named: Mapping[str, object], secrets: Iterable[str] = ()) -> dict[str, str | int | float | bool | None]:
    """All facts of an entry."""
    return {name: clean_fact(name, value, secrets) for name, value in named.items()}


def spellings(secret: bytes) -> tuple[str, ...]:
    """How a secret could turn up in text."""
    forms = [secret.hex(), base64.b64encode(secret).decode(), base64.urlsafe_b64encode(secret).decode(), repr(secret)]
    return tuple({form.rstrip("=") for form in forms})


def _hide_if_random(word: re.Match[str]) -> str:
    text = word[0]
    looks_random = any(c.isdigit() for c in text) or (text != text.lower() and text != text.upper())
    return HIDDEN if looks_random else text


_LEVELS: dict[Level, int] = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
MOST_BYTES = 16 << 20  # of a log file before the next one is begun
KEPT_FILES = 4  # older files
MOST_WAITING = 10_000  # entries that wait for the disk; beyond, they are counted and dropped
# Libraries that complain to the logging of the standard library; what they say belongs in the same file.
_LIBRARIES = ("asyncio", "grpc", "concurrent.futures")


class Log(Protocol):
    """How to log: `RunLog.say`."""

    def __call__(self, level: Level, text: str, **details: Any) -> None:
        """One sentence; what varies stands beside it by name."""


def no_log(level: Level, text: str, **details: Any) -> None:
    """For whoever keeps no log."""
    del level, text, details


@dataclass(slots=True)
class FloodFilter:
    """How often each text was logged in the present window; more than `most` are only counted."""

    most: int = 50
    seconds: float = 10.0
    began: float = 0.0
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def passes(self, text: str, now: float) -> bool:
        """Whether this one is written."""
        if now - self.began >= self.seconds or len(self.counts) >= 1000:
            self.began, self.counts = now, {}
        self.counts[text] = count = self.counts.get(text, 0) + 1
        return count <= self.most

    def is_last(self, text: str) -> bool:
        """Whether it was the last one of this window that is written."""
        return self.counts.get(text, 0) == self.most


class RunLog:
    """The open log of one process of a run; `close` writes what is waiting."""

    def __init__(
        self,
        path: Path,
        run: str,
        *,
        process: str = "processor",
        level: Level = "info",
        stderr_level: Level | None = "warning",
        stream: Callable[[], TextIO] = lambda: sys.stderr,
        max_bytes: int = MOST_BYTES,
    ) -> None:
        self._run, self._process, self._secrets = run, process, set[str]()
        self._flood, self.dropped, self._closed = FloodFilter(), 0, False
        self._logger = logging.Logger("fedfleet.wire", _LEVELS[level])
        waiting: queue.Queue[Any] = queue.Queue(MOST_WAITING)
        self._feed = _QueueFeed(waiting, self)
        handlers: list[logging.Handler] = [_PrivateFile(path, max_bytes, self._line)]
        if stderr_level is not None:
            handlers.append(_StderrHandler(stream, self._plain, _LEVELS[stderr_level]))
        self._listener = QueueListener(waiting, *handlers, respect_handler_level=True)
        self._listener.start()
        self._logger.addHandler(self._feed)
        for name in _LIBRARIES:
            logging.getLogger(name).addHandler(self._feed)

    def say(
        self,
        level: Level,
        text: str,
        *,
        device: int | None = None,
        task: int | None = None,
        round: int | None = None,
        error: BaseException | None = None,
        **details: object,
    ) -> None:
        """Log one sentence; what varies stands beside it by name."""
        if not self._flood.passes(text, time.monotonic()):
            self.dropped += 1
            return
        if self._flood.is_last(text):
            details["note"] = "more of these are not written for some seconds"
        known = {"device": device, "task": task, "round": round}
        fields = {n: v for n, v in known.items() if v is not None} | details
        self._logger.log(_LEVELS[level], "%s", text, extra={"beside": fields}, exc_info=error)

    def hide(self, secret: bytes) -> None:
        """This value must never be written, however it is spelt."""
        self._secrets.update(spellings(secret))

    def close(self) -> None:
        """Write what is waiting and let the file go."""
        if self._closed:
            return
        self._closed = True
        for name in _LIBRARIES:
            logging.getLogger(name).removeHandler(self._feed)
        self._logger.removeHandler(self._feed)
        self._listener.stop()
        for handler in self._listener.handlers:
            with suppress(OSError, ValueError):  # the disk is full, as was said when it was noticed
                handler.close()

    def _entry(self, record: logging.LogRecord) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "run": self._run,
            "process": self._process,
            "text": printable(without_secrets(record.getMessage(), self._secrets), MOST_TEXT),
        }
        if record.name != self._logger.name:
            entry["library"] = record.name
        entry |= clean_facts(getattr(record, "beside", {}), self._secrets)
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            entry["error"] = type(error).__name__
            entry["reason"] = printable(without_secrets(str(error), self._secrets), MOST_TEXT)
            # Where it happened, never with what values.
            entry["where"] = [
                f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)[-8:]
            ]
        return entry

    def _line(self, record: logging.LogRecord) -> str:
        return json.dumps(self._entry(record))

    def _plain(self, record: logging.LogRecord) -> str:
        entry = self._entry(record)
        plain_fields = {"time", "level", "run", "process", "text", "where"}
        details = ", ".join(f"{name} {value}" for name, value in entry.items() if name not in plain_fields)
        return f"{entry['time'][11:19]} {entry['level']}: {entry['text']}" + (f" ({details})" if details else "")


class _QueueFeed(QueueHandler):
    """Hands records to the thread that writes; when that cannot keep up, they are counted and dropped."""

    def __init__(self, waiting: queue.Queue[Any], log: RunLog) -> None:
        super().__init__(waiting)
        self._log = log

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """As it is: it stays in this process, and the error is told by its kind, not as text."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Without waiting."""
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self._log.dropped += 1


class _PrivateFile(RotatingFileHandler):
    """A rotated file that only its owner can read; a full disk is said once on standard error, and the run goes on."""

    def __init__(self, path: Path, max_bytes: int, line: Callable[[logging.LogRecord], str]) -> None:
        self._complained = False
        super().__init__(path, maxBytes=max_bytes, backupCount=KEPT_FILES, encoding="ascii")
        self.format = line  # type: ignore[method-assign]

    def _open(self) -> Any:
        handle = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        os.fchmod(handle, 0o600)
        return open(handle, "a", encoding="ascii", closefd=True)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 - the library's own
        """Once is enough."""
        if not self._complained:
            self._complained = True
            sys.stderr.write(f"fedfleet: the log {self.baseFilename} cannot be written ({sys.exc_info()[1]})\n")


class _StderrHandler(logging.Handler):
    """Lines on standard error, wherever that leads when a line is written: the live line may stand before it."""

    def __init__(self, stream: Callable[[], TextIO], line: Callable[[logging.LogRecord], str], level: int) -> None:
        super().__init__(level)
        self._stream = stream
        self.format = line  # type: ignore[method-assign]

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        try:
            stream = self._stream()
            stream.write(self.format(record) + "\n")
            stream.flush()
        except (OSError, ValueError):  # nobody reads it any more
            pass
