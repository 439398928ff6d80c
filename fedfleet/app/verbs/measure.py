"""The verbs about fleets and machines: sample, measure, profile, bench."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.words import AsJson, answer, app

sample = typer.Typer(help="Make a fleet: devices or states drawn from a base by a sampler.", no_args_is_help=True)
app.add_typer(sample, name="sample")

Clients = Annotated[int, typer.Option(min=1, help="How many clients.")]
Out = Annotated[Path | None, typer.Option(help="The file to write: .json, or .npz for large fleets.")]
SemanticsWord = Annotated[str, typer.Option(help="paper: as printed; released: as the published program.")]
Base = Annotated[
    str, typer.Option(help="A file, or builtin, flhetbench:PATH, flash:PATH, fedscale:PATH, flame:PATH, fsreal.")
]
K = Annotated[int, typer.Option("--clients-k", min=1, help="Clients a round.")]
Rounds = Annotated[int, typer.Option(min=1, help="Rounds of the deadline-based simulation.")]
Deadline = Annotated[float, typer.Option(help="Seconds.")]


@sample.command("devices")
def devices(
    sampler: Annotated[str, typer.Option(help="dpgmm, pool72 or uniform.")] = "dpgmm",
    base: Base = "builtin",
    kinds: Annotated[int, typer.Option(min=1, help="dpgmm: number of kinds K_n.")] = 50,
    sigma: Annotated[float, typer.Option(min=0.0, help="dpgmm: spread, in units of the base's own.")] = 1.0,
    mean_mbps: Annotated[float, typer.Option(help="dpgmm: mean speed in Mbit/s.")] = 42.0,
    alpha: Annotated[
        float | None, typer.Option(help="dpgmm: concentration of the kinds' shares; default 1000.")
    ] = None,
    distribution: Annotated[
        str, typer.Option(help="pool72: homo, uniform, near_normal, strong_heavy, double_tails.")
    ] = "near_normal",
    clients: Clients = 100,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    semantics: SemanticsWord = "paper",
    out: Out = None,
    picture: Annotated[Path | None, typer.Option(help="Also draw the speeds, as an HTML page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Devices with a dialled number of kinds, spread and mean speed."""
    from fedfleet.app.choices import one_of, positive
    from fedfleet.app.fleets import sample_devices, save_devices
    from fedfleet.app.pages.fleets import devices_page
    from fedfleet.app.show import shown_metrics

    table = sample_devices(
        sampler, base, clients, seed=seed, semantics=one_of("--semantics", semantics, ("paper", "released")), kinds=kinds, sigma=sigma,
        mean_mbps=positive("--mean-mbps", mean_mbps), alpha=None if alpha is None else positive("--alpha", alpha),
        distribution=one_of("--distribution", distribution, ("homo", "uniform", "near_normal", "strong_heavy", "double_tails")),
    )  # fmt: skip
    got = save_devices(table, out)
    if picture is not None:
        picture.write_text(devices_page(table))
    answer(got, as_json, shown_metrics)


@sample.command("states")
def states(
    sampler: Annotated[str, typer.Option(help="dpcsm or uniform.")] = "dpcsm",
    base: Base = "builtin",
    alpha: Annotated[float | None, typer.Option(help="dpcsm: how many different states; default 4.")] = None,
    start_rank: Annotated[int, typer.Option(min=0, help="dpcsm: rank of the best state, from 0.")] = 0,
    clients: Clients = 100,
    seed: Annotated[int | None, typer.Option(min=0, help="Default: 0; released semantics: 2022.")] = None,
    semantics: SemanticsWord = "paper",
    deadline: Deadline = 120.0,
    clients_k: K = 20,
    rounds: Rounds = 3000,
    scores: Annotated[Path | None, typer.Option(help="A JSON object id -> score, instead of computing scores.")] = None,
    out: Out = None,
    picture: Annotated[Path | None, typer.Option(help="Also draw availability over the day, as an HTML page.")] = None,
    as_json: AsJson = False,
) -> None:
    """States from a chosen rank of quality, more or less alike."""
    from fedfleet.app.choices import one_of, positive
    from fedfleet.app.fleets import sample_states, save_states
    from fedfleet.app.pages.fleets import states_page
    from fedfleet.app.show import shown_metrics

    table = sample_states(
        sampler, base, clients, seed=seed, semantics=one_of("--semantics", semantics, ("paper", "released")),
        alpha=None if alpha is None else positive("--alpha", alpha), start_rank=start_rank,
        deadline=positive("--deadline", deadline), k=clients_k, rounds=rounds, scores=scores,
    )  # fmt: skip
    got = save_states(table, out)
    if picture is not None:
        picture.write_text(states_page(table))
    answer(got, as_json, shown_metrics)


@app.command()
def measure(
    devices: Annotated[str | None, typer.Option(help="A devices file or base.")] = None,
    states: Annotated[str | None, typer.Option(help="A states file or base.")] = None,
    clients_k: K = 20,
    rounds: Rounds = 3000,
    trips: Annotated[int, typer.Option(min=1, help="Trips of the readiness-based simulation.")] = 10000,
    deadline: Deadline = 120.0,
    ready_share: Annotated[float, typer.Option(help="The share of clients that a round waits for.")] = 0.8,
    t_cost: Annotated[str, typer.Option(help="State metrics: uniform, deadline, or seconds.")] = "uniform",
    seeds: Annotated[int, typer.Option(min=1)] = 3,
    semantics: SemanticsWord = "paper",
    model_bytes: Annotated[
        float | None, typer.Option(help="Size of the model; default: ViT-B/16 in the released units.")
    ] = None,
    samples: Annotated[float, typer.Option(min=0.0, help="Samples trained on, in paper semantics.")] = 1.0,
    t_break: Annotated[float, typer.Option(help="Pause before each round, in seconds.")] = 20.0,
    until_se: Annotated[float | None, typer.Option(help="Add seeds until the standard error is this small.")] = None,
    only: Annotated[str | None, typer.Option(help="Some metrics only, separated by commas.")] = None,
    against: Annotated[str | None, typer.Option(help="Another fleet, for KS and JS distance.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Also draw who succeeds how often, as an HTML page.")] = None,
    as_json: AsJson = False,
) -> None:
    """How hard is this fleet? The six Monte-Carlo metrics, before anyone trains on it."""
    from fedfleet.app.choices import one_of, positive, share
    from fedfleet.app.fleets import measure_fleet, parse_t_cost
    from fedfleet.app.pages.fleets import successes_page
    from fedfleet.app.show import shown_measures
    from fedfleet.measure.montecarlo.settings import VIT_KB, Settings

    settings = Settings(
        clients_k, rounds, trips, positive("--deadline", deadline), share("--ready-share", ready_share), parse_t_cost(t_cost),
        one_of("--semantics", semantics, ("paper", "released")),
        VIT_KB if model_bytes is None else positive("--model-bytes", model_bytes) / 1000.0, samples, positive("--t-break", t_break),
    )  # fmt: skip
    names = tuple(n.strip() for n in only.split(",")) if only else ()
    got = measure_fleet(devices, states, settings, seeds=seeds, until_se=until_se, only=names, against=against)
    if picture is not None:
        picture.write_text(successes_page(devices, states, settings))
    answer(got, as_json, shown_measures)


@app.command()
def profile(
    task: Annotated[str, typer.Option(help="The task whose model is measured.")] = "digits_cnn",
    batch: Annotated[int, typer.Option(min=1)] = 16,
    iterations: Annotated[int, typer.Option(min=1)] = 100,
    side: Annotated[
        int | None, typer.Option(min=1, help="Measure at SIDE x SIDE pixels instead of the task's own shape.")
    ] = None,
    device_id: Annotated[str | None, typer.Option("--id", help="The name of this device; default: the host's.")] = None,
    server: Annotated[str | None, typer.Option(help="Measure the link to this HTTP address, too.")] = None,
    out: Annotated[Path | None, typer.Option(help="A devices file to append the row to.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure this device: inference and training time, memory, and the link to a server; gives a row of a devices file."""
    from fedfleet.app.profiling import append_row, profile_device
    from fedfleet.app.show import shown_metrics

    row, details = profile_device(task, batch=batch, iterations=iterations, side=side, name=device_id, server=server)
    if out is not None:
        append_row(out, row)
    answer({"row": row, **details, "out": None if out is None else str(out)}, as_json, shown_metrics)


bench = typer.Typer(help="Measure speed on this machine.", no_args_is_help=True)
app.add_typer(bench, name="bench")


@bench.command("train")
def bench_train_verb(
    task: Annotated[str, typer.Option(help="A task; its data are made up.")] = "mlp",
    cohort: Annotated[int, typer.Option(min=1, help="Clients that train together.")] = 50,
    steps: Annotated[int, typer.Option(min=1, help="Local steps of each.")] = 5,
    batch: Annotated[int, typer.Option(min=1)] = 10,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    form: Annotated[str | None, typer.Option(help="merged or loop; default: whichever is faster here.")] = None,
    tf32: Annotated[
        bool, typer.Option("--tf32", help="On a GPU: TF32 for products; the difference is reported.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train one cohort by the loop that everybody writes, and stacked; print both times and how far the models lie apart."""
    from fedfleet.app.benching import bench_train
    from fedfleet.app.choices import one_of
    from fedfleet.app.show import shown_metrics

    chosen = None if form is None else one_of("--form", form, ("merged", "loop"))
    place = one_of("--device", device, ("cpu", "cuda"))
    got = bench_train(task, cohort=cohort, steps=steps, batch=batch, device=place, form=chosen, tf32=tf32)
    answer(got, as_json, shown_metrics)
