"""Runs that are served to real devices: what their server logs, and what it says of itself if it can be asked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedfleet.core.errors import FedFleetError

ADDRESS = "address"  # in the folder `wire` of a served run, where its server can be reached
_LONGEST = 64 * 1024
_ASK_SECONDS, _AGAIN_SECONDS = 1.0, 3.0
Ask = Callable[[str, str], Mapping[str, Any]]


def wire_log(folder: Path, most: int = 40) -> list[str]:
    """The last entries of a server's log, a line each: time, level, sentence and what stands beside it."""
    try:
        with (folder / "wire" / "log.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _LONGEST))
            lines = file.read(_LONGEST).decode(errors="replace").splitlines()
    except OSError:
        return []
    return [said for line in lines[-most:] if (said := _entry(line))]


def _entry(line: str) -> str:
    try:
        entry = json.loads(line)
        first = " ".join(str(entry.pop(key)) for key in ("time", "level", "text"))
    except (ValueError, AttributeError, KeyError, TypeError):
        return ""  # the first line may be cut
    beside = " ".join(f"{key}={value}" for key, value in entry.items() if key not in ("run", "process"))
    return f"{first} {beside}".strip()


@dataclass(slots=True)
class Servers:
    """What servers said last, and when: none is asked more often than every three seconds."""

    ask: Ask = field(default_factory=lambda: _ask)
    said: dict[Path, tuple[float, Mapping[str, Any] | None]] = field(default_factory=dict[Path, Any])

    def status(self, folder: Path) -> Mapping[str, Any] | None:
        """How the server of this run stands; None: it cannot be asked from here, and the journal has to do."""
        before = self.said.get(folder)
        if before is not None and time.monotonic() - before[0] < _AGAIN_SECONDS:
            return before[1]
        found: Mapping[str, Any] | None = None
        try:
            about = json.loads((folder / "wire" / ADDRESS).read_text())
            if not about["tls"]:  # whom to trust with TLS is known to the operator only
                found = self.ask(str(about["address"]), (folder / "wire" / "status.token").read_text().strip())
        except (OSError, ValueError, KeyError, TypeError, FedFleetError):
            pass
        self.said[folder] = (time.monotonic(), found)
        return found


def _ask(address: str, token: str) -> Mapping[str, Any]:
    from fedfleet.runtime.wire.operations.status import ask_status

    return ask_status(address, token=token, seconds=_ASK_SECONDS)


def status_words(status: Mapping[str, Any]) -> str:
    """What a server says of itself, in a sentence."""
    waits = f", waiting for {status['waiting_for']}" if status.get("waiting_for") else ""
    stops = "; it is stopping" if status.get("draining") is True else ""
    return f"Its server says: {status['devices_online']} devices online, {status['running']} tasks out{waits}{stops}."
