"""The measures in a run folder (metrics.json), read and checked: anybody may have written them, and pages and comparisons use them.

Folders of older versions lack some measures, and a run may have others; those that readers know must have their type.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from fedfleet.core.errors import printable
from fedfleet.core.json_text import parse_json

MEASURES = "metrics.json"
_CONFIG = ConfigDict(strict=True, extra="allow")
_Share = float | None


@with_config(_CONFIG)
class _Score(TypedDict, total=False):
    kind: str
    name: str
    percent: bool


@with_config(_CONFIG)
class _Mean(TypedDict):
    mean: float
    sd: float


@with_config(_CONFIG)
class _Wasted(TypedDict, total=False):
    tasks: int
    seconds: float
    share: float
    lost: int
    late: int
    duplicates: int


@with_config(_CONFIG)
class _Energy(TypedDict):
    joules: float
    useful: float
    wasted: float
    probes: float
    grams: float | None


@with_config(_CONFIG)
class _Fairness(TypedDict, total=False):
    jain: float
    never: int
    gini: float


@with_config(_CONFIG)
class _Privacy(TypedDict, total=False):
    mechanism: str
    epsilon: float | None
    delta: float
    claim: str
    noise: float
    epsilon_asked: float
    noise_from: str


@with_config(_CONFIG)
class _ClassRow(TypedDict):
    label: str | int
    n: int
    recall: _Share
    precision: _Share


@with_config(_CONFIG)
class _LabelRow(_ClassRow):
    f1: _Share


@with_config(_CONFIG)
class _TokenRow(TypedDict):
    token: int
    name: str
    n: int
    right: float
    instead: str | None


@with_config(_CONFIG)
class _ErrorRow(TypedDict):
    n: int
    rmse: float | None
    bias: float | None


@with_config(_CONFIG)
class _Bin(_ErrorRow):
    low: float
    high: float


@with_config(_CONFIG)
class _Output(_ErrorRow):
    name: str


@with_config(_CONFIG)
class _FitRows(TypedDict, total=False):
    pairs: list[list[float]]
    numbers: int
    not_finite: int
    bins: list[_Bin]
    outputs: list[_Output]


@with_config(_CONFIG)
class _Measures(TypedDict, total=False):
    digest: str
    spec_digest: str
    out: str
    first_weights: str
    stopped_by: str | None
    rounds: int
    commits: int
    rounds_failed: int
    rebroadcasts: int
    abandoned_rounds: int
    reports_rejected: int
    failed_rounds: dict[str, int]
    warnings: list[str]
    accuracy: _Share
    best_accuracy: _Share
    chance: Annotated[float, Field(ge=0.0, le=1.0)] | None
    loss: _Share
    accuracy_clients: _Share
    accuracy_bottom10: _Share
    accuracy_worst10_mean: _Share
    accuracy_std: _Share
    accuracy_took_part: _Share
    accuracy_never: _Share
    accuracy_unseen: _Share
    score: _Score
    test_samples: int | None
    measures: dict[str, float | None]
    own: dict[str, float | None]
    virtual_seconds: float
    wall_seconds: float
    convergence_seconds: float | None
    bytes_down: float
    bytes_up: float
    bytes_per_second: float
    bytes_wasted: dict[str, float]
    utilisation: _Mean
    wasted: _Wasted
    fates: dict[str, dict[str, float]]
    stage_seconds: dict[str, float]
    probes: dict[str, float]
    energy: _Energy | None
    budgets: dict[str, list[dict[str, float | None]]]
    targets: list[dict[str, float | None]]
    pace_timelines: dict[str, list[list[float]]]
    staleness: list[int]
    participation: _Fairness
    time_to: dict[str, float | None]
    curve: dict[str, Any]
    privacy: _Privacy
    classes: list[_ClassRow] | None
    confusion: list[list[int]] | None
    task_results: list[_LabelRow] | list[_TokenRow] | _FitRows | None


@cache
def _schema() -> TypeAdapter[Any]:
    return TypeAdapter(_Measures)


def read_measures(folder: Path) -> dict[str, Any]:
    """The measures of a run, as they lie in its folder; ValueError or OSError where they cannot be read."""
    measures = parse_json((folder / MEASURES).read_text(encoding="utf-8"))
    if not isinstance(measures, dict):
        raise ValueError("it holds no measures")
    try:
        _schema().validate_python(measures)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"] if isinstance(step, int) or step.isidentifier())
        raise ValueError(f"{printable(place, 60)}: {printable(first['msg'], 100)}") from None
    confusion = measures.get("confusion") or []
    sizes = {len(confusion), len(measures.get("classes") or confusion), *map(len, confusion)}
    if len(sizes) > 1:
        raise ValueError("confusion: it is not a square of as many rows as there are classes")
    return measures
