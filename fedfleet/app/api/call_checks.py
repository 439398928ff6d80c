"""Calls from Python that do not fit: what is missing, and what a keyword that a call does not have may mean."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedfleet.core.errors import BadCall

_CLOSE, _LONG = 0.7, 60
# Names that people guess, and what to write instead.
_NAMES = {
    "FedAvg": "fedfleet.run({'algorithm': 'fedavg'})", "Simulation": "fedfleet.run(spec)", "Server": "fedfleet serve",
    "Client": "fedfleet device", "train": "fedfleet.run(spec)", "fit": "fedfleet.run(spec)", "start": "fedfleet.run(spec)",
    "start_simulation": "fedfleet.run(spec)", "run_simulation": "fedfleet.run(spec)", "evaluate": "result.metrics",
    "plot": "fedfleet.report(folder)", "sweep": "fedfleet.study(..)", "search": "fedfleet.tune(..)",
    "load_data": "fedfleet.data(path)",
}  # fmt: skip

# Names that people guess for arguments, and those of FedFleet that mean the same.
_ARGUMENTS = {
    "label": ("target", "targets", "y", "labels", "label_column", "target_column"),
    "owner": ("user", "client", "person", "group", "client_id", "user_id", "owner_column"),
    "input": ("features", "feature", "inputs", "columns", "x"),
    "drop": ("exclude", "ignore", "drop_columns"),
    "time": ("timestamp", "date", "time_column"),
    "out": ("output", "output_dir", "folder", "path"),
}


def check_call(call: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Refuse arguments that do not fit the signature of a public call, with the place where they belong."""
    signature = inspect.signature(call)
    try:
        signature.bind(*arguments, **options)
        return
    except TypeError as error:
        text = str(error)
    name, known = call.__name__, signature.parameters
    keywords = [p.name for p in known.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    unknown = next((key for key in options if key not in keywords), None)
    if unknown is None:
        raise BadCall(f"{name}(): {text}; see help(fedfleet.{name})")
    raise BadCall(f"{name}() has no argument {unknown!r}{_cure(name, unknown, options[unknown], known, keywords)}")


def _cure(name: str, unknown: str, value: Any, known: Mapping[str, inspect.Parameter], keywords: Sequence[str]) -> str:
    takes_words = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in known.values())
    if takes_words and unknown in ("overrides", "override", "settings", "params", "config"):
        return f"; overrides follow the spec, each as text: {name}(spec, {', '.join(map(repr, _words(value)))})"
    close = [right for right, others in _ARGUMENTS.items() if unknown in others and right in keywords]
    close = close or difflib.get_close_matches(unknown, keywords, n=1, cutoff=_CLOSE)
    if close:
        return f"; did you mean {close[0]!r}?"
    if takes_words:
        from fedfleet.app.spec.key_places import settings_for

        text = str(value)
        settings = settings_for(unknown, text if len(text) < _LONG else "VALUE")
        if settings:
            return f"; it is a setting of the spec: {name}(spec, {settings[0]!r})"
    return f"; known: {', '.join(keywords)}"


def _words(value: Any) -> list[str]:
    """Overrides as words, however they were given."""
    if isinstance(value, Mapping):
        return [f"{key}={one}" for key, one in value.items()]
    words = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []
    return [str(word) for word in words] or ["stop.rounds=10"]


def name_hint(name: str, public: Sequence[str]) -> str:
    """What a public name may be that FedFleet does not have; "" if nobody knows.

    >>> name_hint("Run", ["run", "load"]), name_hint("xyz", ["run"])
    ("; did you mean 'run'?", '')
    """
    if name in _NAMES:
        return f"; did you mean {_NAMES[name]}?"
    lower = {one.lower(): one for one in sorted(public, reverse=True)}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=_CLOSE)
    return f"; did you mean {lower[close[0]]!r}?" if close else ""
