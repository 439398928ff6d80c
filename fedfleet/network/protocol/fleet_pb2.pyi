from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRAIN: _ClassVar[Kind]
    EVALUATE: _ClassVar[Kind]
    PROBE: _ClassVar[Kind]
TRAIN: Kind
EVALUATE: Kind
PROBE: Kind

class Chunk(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Caller(_message.Message):
    __slots__ = ("client", "secret")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    client: int
    secret: bytes
    def __init__(self, client: _Optional[int] = ..., secret: _Optional[bytes] = ...) -> None: ...

class EnrolRequest(_message.Message):
    __slots__ = ("protocol", "token", "client", "secret", "samples", "test_samples", "data", "evidence", "memory_bytes", "attempt")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    TEST_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    token: str
    client: int
    secret: bytes
    samples: int
    test_samples: int
    data: str
    evidence: bytes
    memory_bytes: int
    attempt: bytes
    def __init__(self, protocol: _Optional[int] = ..., token: _Optional[str] = ..., client: _Optional[int] = ..., secret: _Optional[bytes] = ..., samples: _Optional[int] = ..., test_samples: _Optional[int] = ..., data: _Optional[str] = ..., evidence: _Optional[bytes] = ..., memory_bytes: _Optional[int] = ..., attempt: _Optional[bytes] = ...) -> None: ...

class EnrolReply(_message.Message):
    __slots__ = ("client", "secret", "sheet", "signature", "run")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    SHEET_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    client: int
    secret: bytes
    sheet: bytes
    signature: bytes
    run: str
    def __init__(self, client: _Optional[int] = ..., secret: _Optional[bytes] = ..., sheet: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., run: _Optional[str] = ...) -> None: ...

class CheckIn(_message.Message):
    __slots__ = ("caller", "hold", "busy")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    caller: Caller
    hold: bool
    busy: int
    def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., hold: _Optional[bool] = ..., busy: _Optional[int] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("work", "later", "over")
    WORK_FIELD_NUMBER: _ClassVar[int]
    LATER_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    work: Work
    later: Later
    over: Over
    def __init__(self, work: _Optional[_Union[Work, _Mapping]] = ..., later: _Optional[_Union[Later, _Mapping]] = ..., over: _Optional[_Union[Over, _Mapping]] = ...) -> None: ...

class Later(_message.Message):
    __slots__ = ("seconds",)
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    def __init__(self, seconds: _Optional[float] = ...) -> None: ...

class Over(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Blob(_message.Message):
    __slots__ = ("name", "nbytes", "crc32c")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NBYTES_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    name: str
    nbytes: int
    crc32c: int
    def __init__(self, name: _Optional[str] = ..., nbytes: _Optional[int] = ..., crc32c: _Optional[int] = ...) -> None: ...

class Work(_message.Message):
    __slots__ = ("kind", "task", "nonce", "round", "version", "model", "inline", "steps", "share", "seed", "settings", "lease_seconds", "memory_task", "rows", "held_seconds", "frozen", "sheet", "turn")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    KIND_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INLINE_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TASK_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    HELD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    SHEET_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    kind: Kind
    task: int
    nonce: bytes
    round: int
    version: int
    model: Blob
    inline: bool
    steps: int
    share: float
    seed: int
    settings: _containers.ScalarMap[str, float]
    lease_seconds: float
    memory_task: int
    rows: _containers.RepeatedScalarFieldContainer[int]
    held_seconds: float
    frozen: Blob
    sheet: str
    turn: Blob
    def __init__(self, kind: _Optional[_Union[Kind, str]] = ..., task: _Optional[int] = ..., nonce: _Optional[bytes] = ..., round: _Optional[int] = ..., version: _Optional[int] = ..., model: _Optional[_Union[Blob, _Mapping]] = ..., inline: _Optional[bool] = ..., steps: _Optional[int] = ..., share: _Optional[float] = ..., seed: _Optional[int] = ..., settings: _Optional[_Mapping[str, float]] = ..., lease_seconds: _Optional[float] = ..., memory_task: _Optional[int] = ..., rows: _Optional[_Iterable[int]] = ..., held_seconds: _Optional[float] = ..., frozen: _Optional[_Union[Blob, _Mapping]] = ..., sheet: _Optional[str] = ..., turn: _Optional[_Union[Blob, _Mapping]] = ...) -> None: ...

class Resources(_message.Message):
    __slots__ = ("wall_seconds", "cpu_seconds", "peak_memory_bytes", "bytes_down", "bytes_up", "samples")
    WALL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CPU_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    BYTES_DOWN_FIELD_NUMBER: _ClassVar[int]
    BYTES_UP_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    wall_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    bytes_down: int
    bytes_up: int
    samples: int
    def __init__(self, wall_seconds: _Optional[float] = ..., cpu_seconds: _Optional[float] = ..., peak_memory_bytes: _Optional[int] = ..., bytes_down: _Optional[int] = ..., bytes_up: _Optional[int] = ..., samples: _Optional[int] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("caller", "task", "nonce", "nbytes", "crc32c", "weight", "stats", "spent", "resources", "offset", "kind", "correct", "total", "loss", "declined", "hold")
    class StatsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class SpentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    CALLER_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    NBYTES_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CORRECT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    DECLINED_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    caller: Caller
    task: int
    nonce: bytes
    nbytes: int
    crc32c: int
    weight: float
    stats: _containers.ScalarMap[str, float]
    spent: _containers.ScalarMap[str, float]
    resources: Resources
    offset: int
    kind: Kind
    correct: int
    total: int
    loss: float
    declined: str
    hold: bool
    def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., task: _Optional[int] = ..., nonce: _Optional[bytes] = ..., nbytes: _Optional[int] = ..., crc32c: _Optional[int] = ..., weight: _Optional[float] = ..., stats: _Optional[_Mapping[str, float]] = ..., spent: _Optional[_Mapping[str, float]] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., offset: _Optional[int] = ..., kind: _Optional[_Union[Kind, str]] = ..., correct: _Optional[int] = ..., total: _Optional[int] = ..., loss: _Optional[float] = ..., declined: _Optional[str] = ..., hold: _Optional[bool] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("status", "reason", "seconds", "next")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SAFE: _ClassVar[Receipt.Status]
        RETRY: _ClassVar[Receipt.Status]
        REFUSED: _ClassVar[Receipt.Status]
        UNWANTED: _ClassVar[Receipt.Status]
        BUSY: _ClassVar[Receipt.Status]
    SAFE: Receipt.Status
    RETRY: Receipt.Status
    REFUSED: Receipt.Status
    UNWANTED: Receipt.Status
    BUSY: Receipt.Status
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    status: Receipt.Status
    reason: str
    seconds: float
    next: Answer
    def __init__(self, status: _Optional[_Union[Receipt.Status, str]] = ..., reason: _Optional[str] = ..., seconds: _Optional[float] = ..., next: _Optional[_Union[Answer, _Mapping]] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("caller", "name", "offset")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    caller: Caller
    name: str
    offset: int
    def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., name: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class HeldRequest(_message.Message):
    __slots__ = ("caller", "task", "nonce", "nbytes", "crc32c")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    NBYTES_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    caller: Caller
    task: int
    nonce: bytes
    nbytes: int
    crc32c: int
    def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ..., task: _Optional[int] = ..., nonce: _Optional[bytes] = ..., nbytes: _Optional[int] = ..., crc32c: _Optional[int] = ...) -> None: ...

class HeldReply(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("caller",)
    CALLER_FIELD_NUMBER: _ClassVar[int]
    caller: Caller
    def __init__(self, caller: _Optional[_Union[Caller, _Mapping]] = ...) -> None: ...

class LeaveReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...
