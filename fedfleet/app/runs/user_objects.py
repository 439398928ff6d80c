"""How a model, a loss or a metric that a person gave is made again; whatever is noted about a model has been tried."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from fedfleet.app.runs.user_code import SCRIPT, Entry, by_hand, described, found_again
from fedfleet.core.errors import FedFleetError


def model_entry(model: Any, sample: Any) -> tuple[Entry, str]:
    """How a model is made again; whatever is noted has been tried."""
    from fedfleet.tasks import layers

    object_given = hasattr(model, "state_dict") and not isinstance(model, type)
    first: Any = model if object_given else model()
    plain = layers.described(first)
    if plain is not None:
        return Entry("layers", "layers of PyTorch", plain), ""
    entry, text = described(type(model) if object_given else model, call=True)
    if entry.by == "code" and (object_given or entry.module == SCRIPT):
        try:
            same = layers.alike(first, found_again(entry, text), sample)
        except FedFleetError:
            same = False
        if not same:
            cure = f"functools.partial({type(first).__name__}, ..)" if object_given else "a function from a module"
            return by_hand(f"{type(first).__name__}, which cannot be made again from its name alone (give {cure})")
    return entry, text


def function_entry(function: Any) -> tuple[Entry, str]:
    """How a loss or a metric is found again."""
    from fedfleet.tasks import layers

    plain = layers.described_loss(function)
    if plain is not None:
        return Entry("layers", "a loss of PyTorch", plain), ""
    if isinstance(function, partial) or hasattr(function, "__qualname__"):
        entry, text = described(function, call=False)
    elif getattr(function, "__dict__", None):
        return by_hand(f"an object of {type(function).__name__} with settings of its own")
    else:
        entry, text = described(type(function), call=True)
    if entry.by == "code" and entry.module == SCRIPT:
        try:
            found_again(entry, text)
        except FedFleetError as wrong:
            return by_hand(f"{entry.name}, whose source does not run alone ({wrong})")
    return entry, text


def made_again(entry: Entry, text: str) -> Any:
    """What an entry says: this runs the code of an entry by code."""
    from fedfleet.tasks import layers

    return layers.made(entry.layers) if entry.by == "layers" else found_again(entry, text)


def maker(model: Any) -> Callable[[], Any]:
    """A function that makes this model; a given module itself is never changed."""
    return partial(copy.deepcopy, model) if hasattr(model, "state_dict") and not isinstance(model, type) else model


def same_thing(known: Entry, thing: Any) -> bool:
    """Is this what an entry was made of, as far as text and layers can tell?"""
    from fedfleet.tasks import layers

    object_given = hasattr(thing, "state_dict") and not isinstance(thing, type)
    if known.by == "layers":
        wanted = layers.made(known.layers)
        if not hasattr(wanted, "state_dict"):
            return layers.described_loss(thing) == known.layers
        return repr(thing if object_given else thing()) == repr(wanted)
    named = isinstance(thing, partial) or hasattr(thing, "__qualname__")
    entry, _ = described(thing if named else type(thing), call=known.call)
    if known.by == "hand" or entry.by == "hand" or not entry.own or not known.own:
        return True  # nothing is known that could be compared
    return (entry.own, entry.args, entry.kwargs) == (known.own, known.args, known.kwargs)
