from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EnrolRequest(_message.Message):
    __slots__ = ("protocol", "client")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    client: int
    def __init__(self, protocol: _Optional[int] = ..., client: _Optional[int] = ...) -> None: ...

class EnrolReply(_message.Message):
    __slots__ = ("spec", "spec_digest")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    spec: str
    spec_digest: str
    def __init__(self, spec: _Optional[str] = ..., spec_digest: _Optional[str] = ...) -> None: ...

class PullRequest(_message.Message):
    __slots__ = ("client",)
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    client: int
    def __init__(self, client: _Optional[int] = ...) -> None: ...

class PullReply(_message.Message):
    __slots__ = ("work", "wait", "over")
    WORK_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    work: Work
    wait: Wait
    over: Over
    def __init__(self, work: _Optional[_Union[Work, _Mapping]] = ..., wait: _Optional[_Union[Wait, _Mapping]] = ..., over: _Optional[_Union[Over, _Mapping]] = ...) -> None: ...

class Work(_message.Message):
    __slots__ = ("task", "round", "tensors", "steps", "share", "seed", "held")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    task: int
    round: int
    tensors: bytes
    steps: int
    share: float
    seed: int
    held: float
    def __init__(self, task: _Optional[int] = ..., round: _Optional[int] = ..., tensors: _Optional[bytes] = ..., steps: _Optional[int] = ..., share: _Optional[float] = ..., seed: _Optional[int] = ..., held: _Optional[float] = ...) -> None: ...

class Wait(_message.Message):
    __slots__ = ("seconds",)
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    def __init__(self, seconds: _Optional[float] = ...) -> None: ...

class Over(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("task", "client", "tensors", "weight", "stats", "spent")
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
    TASK_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    task: int
    client: int
    tensors: bytes
    weight: float
    stats: _containers.ScalarMap[str, float]
    spent: _containers.ScalarMap[str, float]
    def __init__(self, task: _Optional[int] = ..., client: _Optional[int] = ..., tensors: _Optional[bytes] = ..., weight: _Optional[float] = ..., stats: _Optional[_Mapping[str, float]] = ..., spent: _Optional[_Mapping[str, float]] = ...) -> None: ...

class ReportReply(_message.Message):
    __slots__ = ("accepted", "reason")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    reason: str
    def __init__(self, accepted: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...
