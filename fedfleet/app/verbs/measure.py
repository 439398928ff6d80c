"""`fedfleet measure`: how hard a fleet is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer, check_folder, write_page
from fedfleet.core.limits import MOST


def measure(
    devices: Annotated[str | None, typer.Option(help="A devices file or base.")] = None,
    states: Annotated[str | None, typer.Option(help="A states file or base.")] = None,
    clients_k: Annotated[int, typer.Option("--clients-k", min=1, max=MOST, help="Clients per round.")] = 20,
    rounds: Annotated[int, typer.Option(min=1, max=MOST, help="Rounds of the simulation with a deadline.")] = 3000,
    trips: Annotated[
        int, typer.Option(min=1, max=MOST, help="Trips of the simulation that waits for a share of the cohort.")
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
    """How hard is this fleet? The six Monte-Carlo metrics, before anyone trains on it."""
    from fedfleet.app.fleets.measuring import measure_fleet, parse_t_cost
    from fedfleet.app.pages.fleets import successes_page
    from fedfleet.app.terminal.choices import not_negative, one_of, positive, share
    from fedfleet.app.terminal.text import shown_measures
    from fedfleet.measure.montecarlo.settings import VIT_KB, Settings

    settings = Settings(
        k=clients_k,
        rounds=rounds,
        trips=trips,
        deadline=positive("--deadline", deadline),
        ready_share=share("--ready-share", ready_share),
        t_cost=parse_t_cost(t_cost),
        semantics=one_of("--semantics", semantics, ("paper", "released")),
        size_kb=VIT_KB if model_bytes is None else positive("--model-bytes", model_bytes) / 1000.0,
        samples=not_negative("--samples", samples),
        t_break_asked=positive("--t-break", t_break),
    )
    if until_se is not None:
        positive("--until-se", until_se)
    if picture is not None:
        check_folder("--picture", picture)
    names = tuple(n.strip() for n in only.split(",")) if only else ()
    got = measure_fleet(devices, states, settings, seeds=seeds, until_se=until_se, only=names, against=against)
    if picture is not None:
        write_page("--picture", picture, successes_page(devices, states, settings))
    answer(got, as_json, shown_measures)
