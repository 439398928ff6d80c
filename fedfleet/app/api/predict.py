"""`fedfleet.predict`: what a run will come to, before anything is trained on the fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

from fedfleet.app.terminal.answers import check_writable, say, write_page
from fedfleet.app.terminal.own_options import (
    DroppedColumns,
    InputColumns,
    KindOfTask,
    LabelColumn,
    MissingRule,
    OwnerColumn,
    OwnModel,
    OwnPath,
    TimeColumn,
)
from fedfleet.core.errors import BadInput

if TYPE_CHECKING:
    from fedfleet.app.studies.predict.key_sweep import Sweep
    from fedfleet.app.studies.predict.prediction_result import Predicted, Swept


@overload
def predict(
    spec: str | Path | Mapping[str, Any] | None = None, *overrides: str, sweep: None = None, model: Any = None, data: Any = None,
    label: LabelColumn = None, owner: OwnerColumn = None, input: InputColumns = None, drop: DroppedColumns = None,
    time: TimeColumn = None, kind: KindOfTask = None, missing: MissingRule = None,
    loss: Callable[[Any, Any], Any] | None = None, weights: Any = None, partial_weights: Any = False,
    page: str | Path | None = None, cache: str | Path | None = None,
) -> Predicted: ...  # fmt: skip
@overload
def predict(
    spec: str | Path | Mapping[str, Any] | None = None, *overrides: str, sweep: str | Mapping[str, Any], model: Any = None,
    data: Any = None, label: LabelColumn = None, owner: OwnerColumn = None, input: InputColumns = None,
    drop: DroppedColumns = None, time: TimeColumn = None, kind: KindOfTask = None, missing: MissingRule = None,
    loss: Callable[[Any, Any], Any] | None = None, weights: Any = None, partial_weights: Any = False,
    page: str | Path | None = None, cache: str | Path | None = None,
) -> Swept: ...  # fmt: skip
@overload
def predict(
    spec: str | Path | Mapping[str, Any] | None, *overrides: str, sweep: str | Mapping[str, Any] | None,
    page: str | Path | None = None, cache: str | Path | None = None,
) -> Predicted | Swept: ...  # fmt: skip
def predict(
    spec: str | Path | Mapping[str, Any] | None = None,
    *overrides: str,
    sweep: str | Mapping[str, Any] | None = None,
    model: OwnModel = None,
    data: OwnPath = None,
    label: LabelColumn = None,
    owner: OwnerColumn = None,
    input: InputColumns = None,
    drop: DroppedColumns = None,
    time: TimeColumn = None,
    kind: KindOfTask = None,
    missing: MissingRule = None,
    loss: Callable[[Any, Any], Any] | None = None,
    weights: Any = None,
    partial_weights: Any = False,
    page: str | Path | None = None,
    cache: str | Path | None = None,
) -> Predicted | Swept:
    """Predict accuracy, commits, virtual time and who will be left out, in about a second after three short reference runs.

    Args:
        spec: the spec file of the run; in Python also a nested dictionary.
        overrides: overrides of the spec, for example pace.cohort=20.
        sweep: predict at many values of one key, for example pace.seconds=30..600; in Python also `{"pace.seconds": [30, 60]}`. A
            `Swept` is given.
        model, data, label, owner, input, drop, time, kind, missing: your own, by their places; in Python also as objects, as for
            `run`.
        loss, weights, partial_weights: your own, as for `run`. Reference runs of a model or a loss without a name in a module,
            such as a lambda, are not kept.
        page: also draw it, as an HTML page.
        cache: the folder where reference runs are kept; default: ~/.cache/fedfleet.

    >>> import tempfile
    >>> spec = {"task": "digits_logreg", "world": {"clients": 6}, "pace": {"cohort": 6}, "stop": {"rounds": 4}}
    >>> found = predict(spec, cache=tempfile.mkdtemp())
    >>> found.commits.value, found.left_out["sentence"], sorted(found.curve)
    (4.0, 'No client will be left out.', ['accuracy', 'commits', 'high', 'low', 'seconds'])
    """
    from dataclasses import replace

    from fedfleet.app.api.inputs import as_path, resolver_for, take_inputs, user_inputs
    from fedfleet.app.api.own_task import Columns
    from fedfleet.app.api.user_warnings import warn_user
    from fedfleet.app.pages.prediction_page import prediction_page, sweep_page
    from fedfleet.app.studies.predict.key_sweep import predict_sweep
    from fedfleet.app.studies.predict.prediction import predict as predict_run
    from fedfleet.app.studies.predict.prediction import summarise

    page_path = None if page is None else as_path("page", page)
    if page_path is not None:
        check_writable("page", page_path)
    parsed_sweep = _parse_sweep(sweep)
    given = user_inputs(model, data, loss, None, weights, partial_weights=partial_weights)
    table, name, inputs = take_inputs(spec, overrides, given, Columns(label, owner, input, drop, time, kind, missing))
    resolver = resolver_for(inputs, "predict")
    cache_path = None if cache is None else as_path("cache", cache)
    if parsed_sweep is not None:
        result = predict_sweep(table, name, parsed_sweep, cache=cache_path, resolving=resolver, tell=say)
        html = sweep_page
    else:
        resolved, own = resolver(table, name)
        for warning in own.task.warnings if own is not None else ():
            warn_user(warning)
        result = summarise(predict_run(resolved, cache=cache_path, own=own, tell=say))
        html = prediction_page
    if page_path is not None:
        write_page("page", page_path, html(result.to_dict(), name))
    return replace(result, page=page_path)


def _parse_sweep(value: Any) -> Sweep | None:
    from fedfleet.app.spec import plain_table
    from fedfleet.app.studies.predict.key_sweep import parse_sweep, sweep_over

    if value is None or isinstance(value, str):
        return None if value is None else parse_sweep(value)
    if isinstance(value, Mapping):
        return sweep_over(plain_table(cast("Mapping[Any, Any]", value), "sweep"))
    raise BadInput(f"sweep = {value!r}: write 'pace.seconds=30..600', or {{'pace.seconds': [30, 60]}}")
