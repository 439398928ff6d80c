"""How a server serves: everything that the spec of a run does not say."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

MIB = 1 << 20
Level = Literal["debug", "info", "warning", "error"]
LEVELS = get_args(Level)


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How a run is served.

    `devices` is the declared fleet: a round waits until so many are there, or for `patience` seconds. A task whose report is not
    there `lease` seconds after it was sent is lost. `transmitters` processes hold the devices' calls (0: the server's own does),
    of which `hold` may wait on the line at once, for `hold_seconds` each. `commit_seconds` is how long reports gather before they
    are made safe together. Without `durable` nothing is, and without `streaming` reports are folded at the commit and not when
    they come; `encode_once` is for measuring what it is worth. `keep_reports` spools what devices sent even where the sum is
    enough. A report of a device with data of its own counts at most `max_samples` (None: ten times the median of what devices
    declare). With `trust_reports` a selector gets no bounds on what it believes of reports. `metrics` is where figures and health
    are told over HTTP (empty: nowhere). Devices may call over HTTP at `http` too (empty: over gRPC alone), also from pages of the
    `origins`; with `page` it serves a page of its own, with which a browser is a device. `drain_seconds` is what a server takes at
    most to stop in order; a `quiet` one shows nothing on the terminal. No report may have more than
    `most_report_bytes` (None: what follows from the model).
    """

    address: str = "127.0.0.1:50051"
    devices: int = 1
    transmitters: int = 2
    patience: float = 60.0
    lease: float = 600.0
    hold: int = 4096
    hold_seconds: float = 20.0
    commit_seconds: float = 0.02
    durable: bool = True
    streaming: bool = True
    encode_once: bool = True
    keep_reports: bool = False
    max_samples: int | None = None
    trust_reports: bool = False
    in_flight_bytes: int = 256 * MIB
    farewell_seconds: float = 5.0
    checkpoint_every: int = 1
    evaluate: str = "server"
    evaluate_seconds: float = 60.0
    metrics: str = ""
    http: str = ""
    origins: tuple[str, ...] = ()
    page: bool = False
    drain_seconds: float = 20.0
    log_level: Level = "info"
    quiet: bool = False
    most_report_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class FrontendConfig:
    """What a frontend has to know before it listens; the first message that it gets.

    `sheet` says what reports must look like (see `partial_sums`), `codecs` in which codes they may come, `codec_of` which client
    uses which (none: plain tensors). `spool` and `stream` say where granted reports go. Statistics are taken if they have one of
    the names in `stats` (None: whatever an opaque pass calls them). `strikes` are clients that were struck lately, each with
    how many strikes it has left. `http`, `origins` and `page` are those of `ServeOptions`. With `noise_key` (hexadecimal) what lies
    on disk before its commit is encrypted.
    """

    index: int
    address: str
    clients: int
    key: str = field(repr=False)
    folder: str
    shared: str
    sheet: str
    stream: bool
    spool: bool
    durable: bool
    encode_once: bool
    hold: int
    hold_seconds: float
    commit_seconds: float
    in_flight_bytes: int
    largest: int
    codecs: list[list[dict[str, Any]]]
    codec_of: list[list[int]]
    tls: dict[str, str]
    stats: list[str] | None
    strikes: list[list[float]] = field(default_factory=list[list[float]])
    http: str = ""
    origins: list[str] = field(default_factory=list[str])
    page: bool = False
    noise_key: str = field(default="", repr=False)


def config_to_bytes(config: FrontendConfig) -> bytes:
    """The first message to a frontend."""
    return json.dumps(asdict(config)).encode()


def config_from_bytes(data: bytes) -> FrontendConfig:
    """The inverse of `config_to_bytes`."""
    return FrontendConfig(**json.loads(data))
