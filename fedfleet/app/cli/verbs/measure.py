"""`fedfleet measure`: how hard a fleet is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer, check_writable
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import MAX_COUNT

_WITH_SPEC = ("spec", "words", "seeds", "as_json")


def measure(
    ctx: typer.Context,
    spec: Annotated[
        Path | None,
        typer.Argument(metavar="[SPEC]", help="The spec file whose fleet is measured, under its own pacing and work."),
    ] = None,
    words: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]..", help="Overrides of the spec.")] = None,
    devices: Annotated[str | None, typer.Option(help="A devices file (.json, .csv, .npz) or base.")] = None,
    states: Annotated[str | None, typer.Option(help="A states file (.json, .csv, .npz) or base.")] = None,
    clients_k: Annotated[int, typer.Option("--clients-k", min=1, max=MAX_COUNT, help="Clients per round.")] = 20,
    rounds: Annotated[int, typer.Option(min=1, max=MAX_COUNT, help="Rounds of the simulation with a deadline.")] = 3000,
    trips: Annotated[
        int, typer.Option(min=1, max=MAX_COUNT, help="Trips of the simulation that waits for a share of the cohort.")
    ] = 10000,
    deadline: Annotated[float, typer.Option(help="The deadline of a round, in seconds.")] = 120.0,
    ready_share: Annotated[float, typer.Option(help="The share of clients that a round waits for.")] = 0.8,
    t_cost: Annotated[str, typer.Option(help="State metrics: uniform, deadline, or a number of seconds.")] = "uniform",
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="How many simulations to average.")] = 3,
    semantics: Annotated[
        str, typer.Option(help="paper: as the paper says; released: as the published program does.")
    ] = "paper",
    model_bytes: Annotated[
        float | None,
        typer.Option(help="Size of the model in bytes; default: ViT-B/16, in the published program's units."),
    ] = None,
    samples: Annotated[float, typer.Option(help="Samples that each client trains on, in paper semantics.")] = 1.0,
    t_break: Annotated[float, typer.Option(help="Pause before each round, in seconds.")] = 20.0,
    until_se: Annotated[float | None, typer.Option(help="Add seeds until the standard error is this small.")] = None,
    only: Annotated[str | None, typer.Option(help="Compute only these metrics, separated by commas.")] = None,
    against: Annotated[str | None, typer.Option(help="Another fleet, to compare with by KS and JS distance.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw how often each client succeeds, as an HTML page.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """How hard is this fleet? The six Monte-Carlo metrics, before anyone trains on it.

    With a SPEC, of the fleet that it draws, under its own pacing, model and work, with a verdict in words and the class clock.
    """
    from fedfleet.app.api.measure import conflict_message
    from fedfleet.app.api.measure import measure as measured

    if spec is not None:
        conflict = next((name for name in ctx.params if name not in _WITH_SPEC and _is_explicit(ctx, name)), None)
        if conflict is not None:  # a spec says itself what its fleet and its rounds are like
            raise BadInput(conflict_message(f"--{conflict.replace('_', '-')}"))
        measured_fleet = measured(spec, *(words or ()), seeds=seeds)
    else:
        if picture is not None:
            check_writable("--picture", picture)
        measured_fleet = measured(
            devices=devices, states=states, clients_k=clients_k, rounds=rounds, trips=trips, deadline=deadline,
            ready_share=ready_share, t_cost=t_cost, seeds=seeds, semantics=semantics, model_bytes=model_bytes, samples=samples,
            t_break=t_break, until_se=until_se, only=only.split(",") if only else None, against=against, page=picture,
        )  # fmt: skip
    answer(measured_fleet.answer(), as_json, lambda _: str(measured_fleet))


def _is_explicit(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
