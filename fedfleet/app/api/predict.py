"""`fedfleet.predict`: what a run will come to, before anything is trained on the fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast, overload

from fedfleet.app.api.inputs import folder_of, given, resolving_of
from fedfleet.app.api.results import Predicted, Swept, predicted, swept
from fedfleet.app.pages.prediction_page import prediction_page, sweep_page
from fedfleet.app.spec import given_table, plain
from fedfleet.app.studies.predict.key_sweep import Sweep, sweep_of, sweep_over
from fedfleet.app.studies.predict.key_sweep import swept as foretold_at_each
from fedfleet.app.studies.predict.prediction import answered
from fedfleet.app.studies.predict.prediction import predict as foretold
from fedfleet.app.terminal.answers import check_folder, say, write_page
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
    (4.0, 'Nobody will be left out.', ['accuracy', 'commits', 'high', 'low', 'seconds'])
    """
    place = None if page is None else folder_of("page", page)
    if place is not None:
        check_folder("page", place)
    asked = _sweep(sweep)
    table, name = given_table(spec, overrides)
    resolving = resolving_of(given(model, data, loss), "predict")
    kept = None if cache is None else folder_of("cache", cache)
    if asked is not None:
        told = foretold_at_each(table, name, asked, cache=kept, resolving=resolving, tell=say)
        _write(place, lambda: sweep_page(told, name))
        return swept(told, place)
    resolved, own = resolving(table, name)
    told = answered(foretold(resolved, cache=kept, own=own, tell=say))
    _write(place, lambda: prediction_page(told, name))
    return predicted(told, place)


def _sweep(given: Any) -> Sweep | None:
    if given is None or isinstance(given, str):
        return None if given is None else sweep_of(given)
    if isinstance(given, Mapping):
        return sweep_over(plain(cast("Mapping[Any, Any]", given), "sweep"))
    raise BadInput(f"sweep = {given!r}: write 'pace.seconds=30..600', or {{'pace.seconds': [30, 60]}}")


def _write(place: Path | None, drawn: Any) -> None:
    if place is not None:
        write_page("page", place, drawn())
