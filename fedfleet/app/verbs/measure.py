"""`fedfleet measure`: how hard a fleet is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer, check_folder, write_page
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import MOST

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
    """How hard is this fleet? The six Monte-Carlo metrics, before anyone trains on it.

    With a SPEC, of the fleet that it draws, under its own pacing, model and work, with a verdict in words and the class clock.
    """
    if spec is not None:
        _refuse_options(ctx)
        _measure_spec(spec, words or [], seeds, as_json)
        return
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


def _refuse_options(ctx: typer.Context) -> None:
    """A spec says itself what its fleet and its rounds are like."""
    for name, source in ((n, ctx.get_parameter_source(n)) for n in ctx.params):
        if source is not None and source.name == "COMMANDLINE" and name not in _WITH_SPEC:
            option = f"--{name.replace('_', '-')}"
            cure = "override the spec with KEY=VALUE, or leave the spec out"
            raise BadInput(f"{option} and a spec were both given, and the spec says it already; {cure}")


def _measure_spec(spec: Path, words: list[str], seeds: int, as_json: bool) -> None:
    from fedfleet.app.predicting.measuring import measure_spec
    from fedfleet.app.spec import resolve
    from fedfleet.app.spec.reading import read_table, with_words
    from fedfleet.app.terminal.measured import shown_fleet

    found = measure_spec(resolve(with_words(read_table(spec), words), spec.stem), seeds=seeds)
    answer(found, as_json, shown_fleet)
