"""How a model, a loss or a metric that a person gave is made again; whatever is noted about a model has been tried."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from fedfleet.app.runs.user_code import SCRIPT, Entry, describe_object, load_object, manual_entry
from fedfleet.core.errors import FedFleetError


def model_entry(model: Any, sample: Any) -> tuple[Entry, str]:
    """How a model is made again; whatever is noted has been tried."""
    from fedfleet.tasks import layers

    is_object = hasattr(model, "state_dict") and not isinstance(model, type)
    example: Any = model if is_object else model()
    layer_table = layers.describe_model(example)
    if layer_table is not None:
        return Entry("layers", "layers of PyTorch", layer_table), ""
    entry, text = describe_object(type(model) if is_object else model, call=True)
    if entry.by == "code" and (is_object or entry.module == SCRIPT):
        try:
            same = layers.same_model(example, load_object(entry, text), sample)
        except FedFleetError:
            same = False
        if not same:
            cure = f"functools.partial({type(example).__name__}, ..)" if is_object else "a function from a module"
            return manual_entry(
                f"{type(example).__name__}, which cannot be made again from its name alone (give {cure})"
            )
    return entry, text


def function_entry(function: Any) -> tuple[Entry, str]:
    """How a loss or a metric is found again."""
    from fedfleet.tasks import layers

    layer_table = layers.describe_loss(function)
    if layer_table is not None:
        return Entry("layers", "a loss of PyTorch", layer_table), ""
    if isinstance(function, partial) or hasattr(function, "__qualname__"):
        entry, text = describe_object(function, call=False)
    elif getattr(function, "__dict__", None):
        return manual_entry(f"an object of {type(function).__name__} with settings of its own")
    else:
        entry, text = describe_object(type(function), call=True)
    if entry.by == "code" and entry.module == SCRIPT:
        try:
            load_object(entry, text)
        except FedFleetError as error:
            return manual_entry(f"{entry.name}, whose source does not run alone ({error})")
    return entry, text


def rebuild_object(entry: Entry, text: str) -> Any:
    """What an entry says: this runs the code of an entry by code."""
    from fedfleet.tasks import layers

    return layers.build_from(entry.layers) if entry.by == "layers" else load_object(entry, text)


def model_factory(model: Any) -> Callable[[], Any]:
    """A function that makes this model; a given module itself is never changed."""
    return partial(copy.deepcopy, model) if hasattr(model, "state_dict") and not isinstance(model, type) else model


def matches_entry(stored: Entry, thing: Any) -> bool:
    """Is this what an entry was made of, as far as text and layers can tell?"""
    from fedfleet.tasks import layers

    is_object = hasattr(thing, "state_dict") and not isinstance(thing, type)
    if stored.by == "layers":
        expected = layers.build_from(stored.layers)
        if not hasattr(expected, "state_dict"):
            return layers.describe_loss(thing) == stored.layers
        return repr(thing if is_object else thing()) == repr(expected)
    has_name = isinstance(thing, partial) or hasattr(thing, "__qualname__")
    entry, _ = describe_object(thing if has_name else type(thing), call=stored.call)
    if stored.by == "hand" or entry.by == "hand" or not entry.own or not stored.own:
        return True  # nothing is known that could be compared
    return (entry.own, entry.args, entry.kwargs) == (stored.own, stored.args, stored.kwargs)
