"""`fedfleet.predict`: what a run will come to, before anything is trained on the fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast, overload

from fedfleet.app.api.inputs import as_path, resolver_for, user_inputs
from fedfleet.app.api.results import Predicted, Swept, make_predicted, make_swept
from fedfleet.app.pages.prediction_page import prediction_page, sweep_page
from fedfleet.app.spec import plain_table, spec_table
from fedfleet.app.studies.predict.key_sweep import Sweep, parse_sweep, sweep_over
from fedfleet.app.studies.predict.key_sweep import predict_sweep as foretold_at_each
from fedfleet.app.studies.predict.prediction import predict as foretold
from fedfleet.app.studies.predict.prediction import prediction_answer
from fedfleet.app.terminal.answers import check_writable, say, write_page
from fedfleet.core.errors import BadInput


@overload
def predict(
    spec: str | Path | Mapping[str, Any], *overrides: str, sweep: None = None, model: Any = None, data: Any = None,
    loss: Callable[[Any, Any], Any] | None = None, page: str | Path | None = None, cache: str | Path | None = None,
) -> Predicted: ...  # fmt: skip
@overload
def predict(
    spec: str | Path | Mapping[str, Any], *overrides: str, sweep: str | Mapping[str, Any], model: Any = None, data: Any = None,
    loss: Callable[[Any, Any], Any] | None = None, page: str | Path | None = None, cache: str | Path | None = None,
) -> Swept: ...  # fmt: skip
@overload
def predict(
    spec: str | Path | Mapping[str, Any], *overrides: str, sweep: str | Mapping[str, Any] | None,
    page: str | Path | None = None, cache: str | Path | None = None,
) -> Predicted | Swept: ...  # fmt: skip
def predict(
    spec: str | Path | Mapping[str, Any],
    *overrides: str,
    sweep: str | Mapping[str, Any] | None = None,
    model: Any = None,
    data: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    page: str | Path | None = None,
    cache: str | Path | None = None,
) -> Predicted | Swept:
    """Predict accuracy, commits, virtual time and who will be left out of a run: about a second after three short reference runs.

    Args:
        spec: a path or a nested dictionary, with `key=value` overrides, as for `run`.
        sweep: predict at many values of one key: `"pace.seconds=30..600"`, or `{"pace.seconds": [30, 60]}`; a `Swept` is given.
        model, data, loss: your own, as for `run`. A prediction needs labels and reference runs, and own models have both; the
            reference runs of a model or a loss without a name in a module, such as a lambda, are not kept.
        page: also draw it, as one HTML file.
        cache: the folder where reference runs are kept; default: ~/.cache/fedfleet.

    >>> import tempfile
    >>> spec = {"task": "digits_logreg", "world": {"clients": 6}, "pace": {"cohort": 6}, "stop": {"rounds": 4}}
    >>> found = predict(spec, cache=tempfile.mkdtemp())
    >>> found.commits.value, found.left_out["sentence"], sorted(found.curve)
    (4.0, 'No client will be left out.', ['accuracy', 'commits', 'high', 'low', 'seconds'])
    """
    place = None if page is None else as_path("page", page)
    if place is not None:
        check_writable("page", place)
    asked = _parse_sweep(sweep)
    table, name = spec_table(spec, overrides)
    resolving = resolver_for(user_inputs(model, data, loss), "predict")
    kept = None if cache is None else as_path("cache", cache)
    if asked is not None:
        told = foretold_at_each(table, name, asked, cache=kept, resolving=resolving, tell=say)
        _write(place, lambda: sweep_page(told, name))
        return make_swept(told, place)
    resolved, own = resolving(table, name)
    told = prediction_answer(foretold(resolved, cache=kept, own=own, tell=say))
    _write(place, lambda: prediction_page(told, name))
    return make_predicted(told, place)


def _parse_sweep(value: Any) -> Sweep | None:
    if value is None or isinstance(value, str):
        return None if value is None else parse_sweep(value)
    if isinstance(value, Mapping):
        return sweep_over(plain_table(cast("Mapping[Any, Any]", value), "sweep"))
    raise BadInput(f"sweep = {value!r}: write 'pace.seconds=30..600', or {{'pace.seconds': [30, 60]}}")


def _write(path: Path | None, draw: Any) -> None:
    if path is not None:
        write_page("page", path, draw())
