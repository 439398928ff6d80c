from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Claim(_message.Message):
    __slots__ = ("number", "client", "task", "nonce", "nbytes", "crc32c", "weight", "names", "values", "stats", "fault", "declined", "kind", "correct", "total", "loss", "decoded_nbytes")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    NBYTES_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    DECLINED_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CORRECT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    DECODED_NBYTES_FIELD_NUMBER: _ClassVar[int]
    number: int
    client: int
    task: int
    nonce: bytes
    nbytes: int
    crc32c: int
    weight: float
    names: _containers.RepeatedScalarFieldContainer[str]
    values: _containers.RepeatedScalarFieldContainer[float]
    stats: int
    fault: str
    declined: str
    kind: int
    correct: int
    total: int
    loss: float
    decoded_nbytes: int
    def __init__(self, number: _Optional[int] = ..., client: _Optional[int] = ..., task: _Optional[int] = ..., nonce: _Optional[bytes] = ..., nbytes: _Optional[int] = ..., crc32c: _Optional[int] = ..., weight: _Optional[float] = ..., names: _Optional[_Iterable[str]] = ..., values: _Optional[_Iterable[float]] = ..., stats: _Optional[int] = ..., fault: _Optional[str] = ..., declined: _Optional[str] = ..., kind: _Optional[int] = ..., correct: _Optional[int] = ..., total: _Optional[int] = ..., loss: _Optional[float] = ..., decoded_nbytes: _Optional[int] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("number", "status", "reason", "seconds", "granted", "bucket", "weight", "factor", "sum", "time", "order")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    number: int
    status: int
    reason: str
    seconds: float
    granted: bool
    bucket: int
    weight: float
    factor: float
    sum: str
    time: float
    order: int
    def __init__(self, number: _Optional[int] = ..., status: _Optional[int] = ..., reason: _Optional[str] = ..., seconds: _Optional[float] = ..., granted: _Optional[bool] = ..., bucket: _Optional[int] = ..., weight: _Optional[float] = ..., factor: _Optional[float] = ..., sum: _Optional[str] = ..., time: _Optional[float] = ..., order: _Optional[int] = ...) -> None: ...

class Enrolling(_message.Message):
    __slots__ = ("number", "request", "peer")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    number: int
    request: bytes
    peer: str
    def __init__(self, number: _Optional[int] = ..., request: _Optional[bytes] = ..., peer: _Optional[str] = ...) -> None: ...

class Enrolled(_message.Message):
    __slots__ = ("number", "reply", "refused")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    number: int
    reply: bytes
    refused: str
    def __init__(self, number: _Optional[int] = ..., reply: _Optional[bytes] = ..., refused: _Optional[str] = ...) -> None: ...

class Asking(_message.Message):
    __slots__ = ("number", "shard_of")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SHARD_OF_FIELD_NUMBER: _ClassVar[int]
    number: int
    shard_of: int
    def __init__(self, number: _Optional[int] = ..., shard_of: _Optional[int] = ...) -> None: ...

class Told(_message.Message):
    __slots__ = ("number", "json", "shard")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    number: int
    json: str
    shard: bytes
    def __init__(self, number: _Optional[int] = ..., json: _Optional[str] = ..., shard: _Optional[bytes] = ...) -> None: ...

class ToProcessor(_message.Message):
    __slots__ = ("claims", "heard", "heard_back", "gone", "safe", "enrolling", "asking", "closed", "ready", "counters", "strikes")
    class CountersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    HEARD_BACK_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    SAFE_FIELD_NUMBER: _ClassVar[int]
    ENROLLING_FIELD_NUMBER: _ClassVar[int]
    ASKING_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    STRIKES_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[Claim]
    heard: _containers.RepeatedScalarFieldContainer[int]
    heard_back: _containers.RepeatedScalarFieldContainer[float]
    gone: _containers.RepeatedScalarFieldContainer[int]
    safe: _containers.RepeatedScalarFieldContainer[int]
    enrolling: _containers.RepeatedCompositeFieldContainer[Enrolling]
    asking: _containers.RepeatedCompositeFieldContainer[Asking]
    closed: _containers.RepeatedCompositeFieldContainer[Closed]
    ready: Ready
    counters: _containers.ScalarMap[str, float]
    strikes: _containers.RepeatedCompositeFieldContainer[Strike]
    def __init__(self, claims: _Optional[_Iterable[_Union[Claim, _Mapping]]] = ..., heard: _Optional[_Iterable[int]] = ..., heard_back: _Optional[_Iterable[float]] = ..., gone: _Optional[_Iterable[int]] = ..., safe: _Optional[_Iterable[int]] = ..., enrolling: _Optional[_Iterable[_Union[Enrolling, _Mapping]]] = ..., asking: _Optional[_Iterable[_Union[Asking, _Mapping]]] = ..., closed: _Optional[_Iterable[_Union[Closed, _Mapping]]] = ..., ready: _Optional[_Union[Ready, _Mapping]] = ..., counters: _Optional[_Mapping[str, float]] = ..., strikes: _Optional[_Iterable[_Union[Strike, _Mapping]]] = ...) -> None: ...

class Strike(_message.Message):
    __slots__ = ("client", "reason")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    client: int
    reason: str
    def __init__(self, client: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Ready(_message.Message):
    __slots__ = ("pid", "found", "damages")
    PID_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    DAMAGES_FIELD_NUMBER: _ClassVar[int]
    pid: int
    found: _containers.RepeatedCompositeFieldContainer[Found]
    damages: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, pid: _Optional[int] = ..., found: _Optional[_Iterable[_Union[Found, _Mapping]]] = ..., damages: _Optional[_Iterable[str]] = ...) -> None: ...

class Found(_message.Message):
    __slots__ = ("bucket", "tasks", "entries")
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    bucket: int
    tasks: _containers.RepeatedScalarFieldContainer[int]
    entries: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, bucket: _Optional[int] = ..., tasks: _Optional[_Iterable[int]] = ..., entries: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Closed(_message.Message):
    __slots__ = ("bucket", "path", "count")
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    bucket: int
    path: str
    count: int
    def __init__(self, bucket: _Optional[int] = ..., path: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class Wave(_message.Message):
    __slots__ = ("first", "round", "version", "kind", "clients", "steps", "share", "memory_task", "heaviest", "settings", "columns", "blobs", "blob", "lease_seconds", "seed", "rows", "time", "turns")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TASK_FIELD_NUMBER: _ClassVar[int]
    HEAVIEST_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    first: int
    round: int
    version: int
    kind: int
    clients: bytes
    steps: bytes
    share: bytes
    memory_task: bytes
    heaviest: bytes
    settings: _containers.RepeatedScalarFieldContainer[str]
    columns: _containers.RepeatedScalarFieldContainer[bytes]
    blobs: _containers.RepeatedScalarFieldContainer[str]
    blob: bytes
    lease_seconds: float
    seed: int
    rows: _containers.RepeatedScalarFieldContainer[bytes]
    time: float
    turns: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, first: _Optional[int] = ..., round: _Optional[int] = ..., version: _Optional[int] = ..., kind: _Optional[int] = ..., clients: _Optional[bytes] = ..., steps: _Optional[bytes] = ..., share: _Optional[bytes] = ..., memory_task: _Optional[bytes] = ..., heaviest: _Optional[bytes] = ..., settings: _Optional[_Iterable[str]] = ..., columns: _Optional[_Iterable[bytes]] = ..., blobs: _Optional[_Iterable[str]] = ..., blob: _Optional[bytes] = ..., lease_seconds: _Optional[float] = ..., seed: _Optional[int] = ..., rows: _Optional[_Iterable[bytes]] = ..., time: _Optional[float] = ..., turns: _Optional[_Iterable[str]] = ...) -> None: ...

class NewBlob(_message.Message):
    __slots__ = ("name", "path", "nbytes", "crc32c")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    NBYTES_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    name: str
    path: str
    nbytes: int
    crc32c: int
    def __init__(self, name: _Optional[str] = ..., path: _Optional[str] = ..., nbytes: _Optional[int] = ..., crc32c: _Optional[int] = ...) -> None: ...

class ToTransmitter(_message.Message):
    __slots__ = ("grants", "blobs", "waves", "withdrawn", "dropped_blobs", "enrolled", "told", "close", "discard", "come_back", "over", "start", "drain", "revoked", "generations", "round", "calls_per_second", "frozen")
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    WAVES_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    DROPPED_BLOBS_FIELD_NUMBER: _ClassVar[int]
    ENROLLED_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    DISCARD_FIELD_NUMBER: _ClassVar[int]
    COME_BACK_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    GENERATIONS_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    CALLS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    blobs: _containers.RepeatedCompositeFieldContainer[NewBlob]
    waves: _containers.RepeatedCompositeFieldContainer[Wave]
    withdrawn: _containers.RepeatedScalarFieldContainer[int]
    dropped_blobs: _containers.RepeatedScalarFieldContainer[str]
    enrolled: _containers.RepeatedCompositeFieldContainer[Enrolled]
    told: _containers.RepeatedCompositeFieldContainer[Told]
    close: _containers.RepeatedScalarFieldContainer[int]
    discard: _containers.RepeatedScalarFieldContainer[int]
    come_back: float
    over: str
    start: bytes
    drain: bool
    revoked: _containers.RepeatedScalarFieldContainer[int]
    generations: _containers.RepeatedScalarFieldContainer[int]
    round: int
    calls_per_second: float
    frozen: str
    def __init__(self, grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ..., blobs: _Optional[_Iterable[_Union[NewBlob, _Mapping]]] = ..., waves: _Optional[_Iterable[_Union[Wave, _Mapping]]] = ..., withdrawn: _Optional[_Iterable[int]] = ..., dropped_blobs: _Optional[_Iterable[str]] = ..., enrolled: _Optional[_Iterable[_Union[Enrolled, _Mapping]]] = ..., told: _Optional[_Iterable[_Union[Told, _Mapping]]] = ..., close: _Optional[_Iterable[int]] = ..., discard: _Optional[_Iterable[int]] = ..., come_back: _Optional[float] = ..., over: _Optional[str] = ..., start: _Optional[bytes] = ..., drain: _Optional[bool] = ..., revoked: _Optional[_Iterable[int]] = ..., generations: _Optional[_Iterable[int]] = ..., round: _Optional[int] = ..., calls_per_second: _Optional[float] = ..., frozen: _Optional[str] = ...) -> None: ...
