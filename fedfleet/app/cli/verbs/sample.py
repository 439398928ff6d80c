"""`fedfleet sample`: make a fleet. The samplers' own signatures declare their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedfleet.app.terminal.answers import AsJson, answer, check_writable, say, write_page
from fedfleet.app.terminal.lazy_commands import Group, LazyVerb, Verb
from fedfleet.core.limits import MAX_CLIENTS, MAX_SEED

sample = Group(
    "Make a fleet: draw devices or states from a base with a sampler.",
    {"devices": "fedfleet.app.cli.verbs.sample:devices", "states": "fedfleet.app.cli.verbs.sample:states"},
)
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

Clients = Annotated[int, typer.Option(min=1, max=MAX_CLIENTS, help="How many clients.")]
Out = Annotated[Path | None, typer.Option(help="The file to write: .json, .csv, or .npz for large fleets.")]


def _with_sampler_options(kind: str, verb: Verb) -> Verb:
    from fedfleet.app.fleets.fleet_samples import SAMPLERS, sampler_parameters
    from fedfleet.app.terminal.signature_options import with_options

    return with_options(verb, {name: sampler_parameters(s) for name, s in SAMPLERS[kind].items()}, MEANING)


def _table(kind: str, sampler: str, options: dict[str, Any]) -> dict[str, Any]:
    """What was asked for, checked, as the table of a part."""
    from fedfleet.app.fleets.fleet_samples import find_sampler, sampler_parameters
    from fedfleet.app.terminal.signature_options import check_options

    return {
        "use": sampler,
        **check_options(options, sampler, sampler_parameters(find_sampler(kind, sampler)), ignored=COMMON_OPTIONS),
    }


def _check_files(out: Path | None, picture: Path | None) -> None:
    for option, path in (("--out", out), ("--picture", picture)):
        if path is not None:
            check_writable(option, path)


def _devices(
    *,
    sampler: Annotated[str, typer.Option(help="dpgmm, pool72 or uniform.")] = "dpgmm",
    given: dict[str, Any],
    clients: Clients = 100,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Another seed gives another fleet.")] = 0,
    out: Out = None,
    picture: Annotated[Path | None, typer.Option(help="Also draw the speeds, as an HTML page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Devices with a chosen number of kinds, spread and mean speed."""
    from fedfleet.app.fleets.fleet_samples import sample_devices
    from fedfleet.app.fleets.metrics import save_devices
    from fedfleet.app.pages.fleet_pages import devices_page
    from fedfleet.app.terminal.text import metrics_text

    _check_files(out, picture)
    table = sample_devices(_table("devices", sampler, given), clients, seed)
    saved = save_devices(table, out)
    if picture is not None:
        write_page("--picture", picture, devices_page(table))
    answer(saved, as_json, metrics_text)


def _states(
    *,
    sampler: Annotated[str, typer.Option(help="dpcsm or uniform.")] = "dpcsm",
    given: dict[str, Any],
    clients: Clients = 100,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, max=MAX_SEED, help="Another seed gives another fleet; default: 0, with released semantics 2022."
        ),
    ] = None,
    scores: Annotated[
        Path | None, typer.Option(help="dpcsm: a JSON object that maps state ids to scores, instead of computing them.")
    ] = None,
    out: Out = None,
    picture: Annotated[Path | None, typer.Option(help="Also draw availability over the day, as an HTML page.")] = None,
    as_json: AsJson = False,
) -> None:
    """States from a chosen rank of quality, more or less alike."""
    from fedfleet.app.fleets.fleet_samples import read_scores, sample_states
    from fedfleet.app.fleets.metrics import save_states
    from fedfleet.app.pages.fleet_pages import states_page
    from fedfleet.app.terminal.text import metrics_text

    _check_files(out, picture)
    sampler_table = _table("states", sampler, given)
    given_scores = {} if scores is None else {"score": read_scores(scores)}
    messages: list[str] = []
    table = sample_states(sampler_table, clients, seed, warn=messages.append, **given_scores)
    saved = save_states(table, out)
    if picture is not None:
        write_page("--picture", picture, states_page(table))
    answer({**saved, "warnings": messages}, as_json, lambda found: metrics_text(saved))
    for warning in messages:
        say(f"WARNING: {warning}")


devices = LazyVerb(lambda: _with_sampler_options("devices", _devices))
states = LazyVerb(lambda: _with_sampler_options("states", _states))
