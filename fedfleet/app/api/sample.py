"""`fedfleet sample`: draw a fleet of devices, or states for it, from a base.

The samplers' own signatures declare the options of `fedfleet sample`; this module is loaded only by this verb.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from fedfleet.app.fleets.fleet_samples import SAMPLERS, find_sampler, read_scores, sample_devices, sample_states, sampler_parameters
from fedfleet.app.spec.parameter_text import type_text
from fedfleet.app.spec.table_checks import check_value
from fedfleet.app.terminal.answers import Answer, check_writable, write_page
from fedfleet.app.terminal.text import metrics_text
from fedfleet.core.bounds import Ge, Le
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import MAX_SEED, Clients

# By name: the type of a parameter with its limits, and its entry in the signature.
Parameters = Mapping[str, tuple[Any, inspect.Parameter]]

# What the parameters mean to somebody who draws a fleet. Types, limits and defaults are the samplers' own.
MEANING = {
    "base": "What to draw from: a file, or builtin, flhetbench:PATH, flash:PATH, fedscale:PATH, flame:PATH, fsreal",
    "semantics": "Follow the paper, or the published program",
    "kinds": "Number of kinds of device",
    "sigma": "How much the kinds differ in speed, in units of the base's own spread",
    "mean_mbps": "Mean speed in Mbit/s",
    "alpha": "Concentration: the larger, the more evenly clients are spread over the kinds or states; dpcsm: at most 100",
    "support": "paper semantics: no speed outside those of the base, or all below 1 kbit/s raised to that floor",
    "distribution": "How common each of the 72 configurations is",
    "seconds_per_sample": "Inference time of a sample on one core, in seconds",
    "start_rank": "Rank of the best state in the fleet; 0 is the best of the base",
    "deadline": "Deadline of a round in seconds, for scoring states",
    "clients_k": "Clients per round, for scoring states",
    "rounds": "Simulated rounds, for scoring states",
}
COMMON_OPTIONS = ("base", "semantics")  # may be given whatever the sampler, as the contract of the command has it


def with_parameters(
    call: Callable[..., Answer], parts: Mapping[str, Parameters], meaning: Mapping[str, str]
) -> Callable[..., Answer]:
    """The call with a keyword for every parameter that one of the parts declares, in the place of its argument `given`: a table of
    those that were set and of no others."""
    names = dict.fromkeys(name for declared in parts.values() for name in declared)
    added = [_keyword(name, parts, meaning[name]) for name in names]
    parameters = inspect.signature(call, eval_str=True).parameters.values()

    def wrapped(**values: Any) -> Answer:
        given = {name: values.pop(name) for name in names if values.get(name) is not None}
        return call(**{name: value for name, value in values.items() if name not in names}, given=given)

    wrapped.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [one for p in parameters for one in (added if p.name == "given" else [p])]
    )
    wrapped.__doc__ = call.__doc__
    return wrapped


def check_options(options: Mapping[str, Any], part: str, declared: Parameters, *, ignored: tuple[str, ...] = ()) -> dict[str, Any]:
    """The given options if the part has them and their values are within its limits.

    The `ignored` ones may be given for every part, and are left out where a part does not have them.
    """
    result: dict[str, Any] = {}
    for name, value in options.items():
        if name in declared:
            if isinstance(value, float) and not math.isfinite(value):
                raise BadInput(f"{_flag(name)} {value} must be finite")
            result[name] = check_value(declared[name][0], value, _flag(name))
        elif name not in ignored:
            raise BadInput(f"{_flag(name)} does not apply to {part}; it takes {', '.join(map(_flag, declared))}")
    return result


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _keyword(name: str, parts: Mapping[str, Parameters], meaning: str) -> inspect.Parameter:
    owners = [part for part, declared in parts.items() if name in declared]
    hint, parameter = parts[owners[0]][name]
    details = [] if len(owners) == len(parts) else [", ".join(owners)]
    details += [type_text(hint), f"default {_default_text(parameter.default)}"]
    kind = inspect.Parameter.KEYWORD_ONLY
    text = f"{meaning} ({'; '.join(details)})."
    return inspect.Parameter(name, kind, default=None, annotation=Annotated[_plain_type(hint) | None, text])


def _default_text(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return "none, so it must be given"
    return f"{default:g}" if isinstance(default, float) else str(default)


def _plain_type(hint: Any) -> Any:
    """The type that is read for a hint; limits and choices are checked afterwards, for the chosen part.

    >>> _plain_type(Annotated[int, "at least 1"]), _plain_type(float | None)
    (<class 'int'>, <class 'float'>)
    """
    origin = get_origin(hint)
    if origin is Annotated:
        return _plain_type(get_args(hint)[0])
    if origin in (Union, UnionType):
        return _plain_type(next(a for a in get_args(hint) if a is not NoneType))
    return hint if hint in (bool, int, float) else str


def _table(kind: str, sampler: str, options: dict[str, Any]) -> dict[str, Any]:
    """The sampler with its checked options, as the table of a part."""
    declared = sampler_parameters(find_sampler(kind, sampler))
    return {"use": sampler, **check_options(options, sampler, declared, ignored=COMMON_OPTIONS)}


def _check_files(out: Path | None, page: Path | None) -> None:
    for name, path in (("out", out), ("page", page)):
        if path is not None:
            check_writable(name, path)


def _devices(
    *,
    sampler: str = "dpgmm",
    given: dict[str, Any],
    clients: Clients = 100,
    seed: Annotated[int, Ge(0), Le(MAX_SEED)] = 0,
    out: Path | None = None,
    page: Path | None = None,
) -> Answer:
    """Devices with a chosen number of kinds, spread and mean speed.

    Args:
        sampler: `dpgmm`, pool72 or uniform.
        clients: how many clients.
        seed: another seed gives another fleet.
        out: the file to write: .json, .csv, or .npz for large fleets.
        page: also draw the speeds, as an HTML page.
    """
    from fedfleet.app.fleets.metrics import save_devices
    from fedfleet.app.pages.fleet_pages import devices_page

    _check_files(out, page)
    table = sample_devices(_table("devices", sampler, given), clients, seed)
    saved = save_devices(table, out)
    if page is not None:
        write_page("page", page, devices_page(table))
    return Answer(saved, metrics_text)


def _states(
    *,
    sampler: str = "dpcsm",
    given: dict[str, Any],
    clients: Clients = 100,
    seed: Annotated[int, Ge(0), Le(MAX_SEED)] | None = None,
    scores: Path | None = None,
    out: Path | None = None,
    page: Path | None = None,
) -> Answer:
    """States from a chosen rank of quality, more or less alike.

    Args:
        sampler: `dpcsm` or uniform.
        clients: how many clients.
        seed: another seed gives another fleet; default: 0, with released semantics 2022.
        scores: `dpcsm`: a JSON object that maps state ids to scores, instead of computing them.
        out: the file to write: .json, .csv, or .npz for large fleets.
        page: also draw availability over the day, as an HTML page.
    """
    from fedfleet.app.fleets.metrics import save_states
    from fedfleet.app.pages.fleet_pages import states_page

    _check_files(out, page)
    sampler_table = _table("states", sampler, given)
    given_scores = {} if scores is None else {"score": read_scores(scores)}
    messages: list[str] = []
    table = sample_states(sampler_table, clients, seed, warn=messages.append, **given_scores)
    saved = save_states(table, out)
    if page is not None:
        write_page("page", page, states_page(table))
    return Answer({**saved, "warnings": messages}, metrics_text(saved), [f"WARNING: {message}" for message in messages])


devices = with_parameters(_devices, {name: sampler_parameters(s) for name, s in SAMPLERS["devices"].items()}, MEANING)
states = with_parameters(_states, {name: sampler_parameters(s) for name, s in SAMPLERS["states"].items()}, MEANING)
