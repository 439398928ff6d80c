"""Runs that are served to real devices: what their server logs, what it says of itself, and how it is resumed."""

from __future__ import annotations

import base64
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.core.json_text import parse_json

# In the folder `wire` of a served run: how its server was started, and how it stands.
ADDRESS, STATUS_FILE = "address", "now.json"
_LONGEST = 64 * 1024
_OLD_SECONDS = 20.0  # a server writes once a second; what is older says nothing of now
_BITS = [f"{byte:08b}" for byte in range(256)]


def server_log_lines(folder: Path, most: int = 40) -> list[str]:
    """The last entries of a server's log, a line each: time, level, sentence and what stands beside it."""
    try:
        with (folder / "wire" / "log.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _LONGEST))
            lines = file.read(_LONGEST).decode(errors="replace").splitlines()
    except OSError:
        return []
    result = list[str]()
    for line in lines[-most:]:
        try:
            entry = parse_json(line)
            first = " ".join(str(entry.pop(key)) for key in ("time", "level", "text"))
        except (ValueError, AttributeError, KeyError, TypeError):
            continue  # the first line may be cut
        result.append(" ".join([first, *(f"{k}={v}" for k, v in entry.items() if k not in ("run", "process"))]).strip())
    return [text for text in result if text]


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What the server of a run says of itself; `present`: a letter for each device, 1 if it is there."""

    status: Mapping[str, Any]
    present: str = ""

    @property
    def online(self) -> int:
        """How many devices are there."""
        return int(self.status["devices_online"])


def read_server_status(folder: Path) -> ServerStatus | None:
    """How the server of this run stands, as it wrote into its folder a moment ago; None: it did not, and the journal has to do."""
    path = folder / "wire" / STATUS_FILE
    try:
        if time.time() - path.stat().st_mtime > _OLD_SECONDS:
            return None
        content = parse_json(path.read_bytes())
        bits = "".join(map(_BITS.__getitem__, base64.b64decode(content["present"])))
        status: Mapping[str, Any] = content["status"]
        server_status = ServerStatus(status, bits)
        return server_status if server_status.online >= 0 and status["running"] >= 0 else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def status_sentence(server_status: ServerStatus) -> str:
    """What a server says of itself, in a sentence."""
    from fedfleet.network.operations.metrics import activity_text

    status = server_status.status
    waits = f", {activity_text(str(status['waiting_for']))}" if status.get("waiting_for") else ""
    stops = "; it is stopping" if status.get("draining") is True else ""
    return f"Its server says: {server_status.online:,} devices online, {status['running']} tasks out{waits}{stops}."


def resume_command(folder: Path) -> str:
    """The command that goes on with a stopped server: what was typed to start it, if its folder tells, and --resume."""
    try:
        about = parse_json((folder / "wire" / ADDRESS).read_bytes())
        words, place = [str(word) for word in about["command"]], str(about["folder"])
    except (OSError, ValueError, KeyError, TypeError):
        home = folder.absolute()
        return shlex.join(["fedfleet", "serve", f"{home}/spec.toml", "--out", str(home), "--resume"])
    more = [] if "--resume" in words else ["--resume"]
    return f"cd {shlex.quote(place)} && {shlex.join(['fedfleet', *words, *more])}"
