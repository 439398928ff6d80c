"""What devices measured of themselves, in `profiles.jsonl` of the run's folder: one line for each measurement.

All frontends append to the same file, each line with one write, so that no two lines mix.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

from fedfleet.core.errors import Refused, printable
from fedfleet.core.json_text import parse_json

PROFILES = "profiles.jsonl"
_NEEDED = ("model", "seconds_per_batch")
_TEXTS, _MAX_LETTERS = ("model", "kind"), 100
_NUMBERS = (
    "seconds_per_batch", "batch", "seconds_per_sample", "down_bytes_per_second", "up_bytes_per_second", "latency_seconds",
    "memory_mb", "battery",
)  # fmt: skip
_MAX_BYTES = 16 << 20  # of the file: it holds whatever devices send


class DeviceProfiles:
    """The file of one run."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, client: int, data: bytes) -> None:
        """Add what this client measured; `Refused` if it is no measurement, or if there is no room for more."""
        line = json.dumps({"client": client, **check_profile(data)}) + "\n"
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(handle).st_size + len(line) > _MAX_BYTES:
                    raise Refused(f"the server keeps {_MAX_BYTES >> 20} MiB of profiles, and has them")
                os.write(handle, line.encode())
            finally:
                os.close(handle)
        except OSError as error:
            raise Refused(f"the server cannot write profiles ({error.strerror})") from None


def check_profile(data: bytes) -> dict[str, str | float]:
    """What a device measured; `Refused` if anything of it is not known or no number.

    >>> check_profile(b'{"model": "har_cnn", "seconds_per_batch": 0.2}')
    {'model': 'har_cnn', 'seconds_per_batch': 0.2}
    """
    try:
        table = parse_json(data)
    except ValueError:
        raise Refused("a profile is an object of JSON") from None
    if not isinstance(table, dict):
        raise Refused("a profile is an object of JSON")
    unknown = [name for name in table if name not in (*_TEXTS, *_NUMBERS)]
    if unknown:
        raise Refused(f"a profile has no field {printable(str(unknown[0]), 40)!r}; it has {', '.join((*_TEXTS, *_NUMBERS))}")
    missing = [name for name in _NEEDED if name not in table]
    if missing:
        raise Refused(f"a profile needs {missing[0]!r}")
    for name, value in table.items():
        if name in _TEXTS:
            if not isinstance(value, str) or not 0 < len(value) <= _MAX_LETTERS:
                raise Refused(f"{name!r} of a profile is a text of 1 to {_MAX_LETTERS} letters")
            table[name] = printable(value, _MAX_LETTERS)
        elif isinstance(value, bool) or not isinstance(value, int | float) or not (0 <= value < 1e18 and math.isfinite(value)):
            raise Refused(f"{name!r} of a profile is a number that is not negative")
    return table
