"""`fedfleet stress`: how many updates the server takes on this machine, beside gRPC that does nothing else."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fedfleet.app.terminal.answers import AsJson, answer, say
from fedfleet.core.limits import MAX_CLIENTS


def stress(
    clients: Annotated[int, typer.Option(min=1, max=MAX_CLIENTS, help="Clients, all of them in every round.")] = 1000,
    payload_bytes: Annotated[
        int, typer.Option(min=16, max=1 << 32, help="Bytes of the model and of every report; a multiple of 4.")
    ] = 100_000,
    rounds: Annotated[int, typer.Option(min=2, max=1_000_000, help="Rounds; rates leave the first out.")] = 10,
    mode: Annotated[str, typer.Option(help="sync or fedbuff (a model for every tenth of the clients).")] = "sync",
    no_durable: Annotated[
        bool, typer.Option("--no-durable", help="Acknowledge reports before they are safe on disk.")
    ] = False,
    transmitters: Annotated[
        int | None, typer.Option(min=0, max=256, help="Processes that hold the calls; 0: one process for all.")
    ] = None,
    in_flight: Annotated[
        int | None,
        typer.Option(min=1, max=1_000_000, help="Payloads on their way at once; default: 256, or 48 large ones."),
    ] = None,
    generators: Annotated[int, typer.Option(min=1, max=256, help="Processes that play clients.")] = 1,
    tls: Annotated[bool, typer.Option("--tls", help="Over TLS 1.3, raw gRPC too.")] = False,
    ablation: Annotated[
        bool, typer.Option("--ablation", help="Also without the server's mechanisms, adding one at a time.")
    ] = False,
    sweep: Annotated[
        str | None, typer.Option(metavar="N,N,..", help="These numbers of clients instead, one after another.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve a run in which nobody trains to as many clients as wanted, over real gRPC on the loopback; print rates and memory.

    The limit beside it is gRPC alone: the same bytes down and up, through as many processes, in the same run.
    """
    from fedfleet.app.terminal.stress_text import stress_text
    from fedfleet.app.terminal.value_checks import one_of
    from fedfleet.network.stress.stress_plan import Dummy
    from fedfleet.network.stress.stress_run import Stress
    from fedfleet.network.stress.stress_series import run_ablation, run_sweep, sizes_of

    dummy = Dummy(clients, payload_bytes, rounds, one_of("--mode", mode, ("sync", "fedbuff")))
    stress_options = Stress(
        dummy, -1 if transmitters is None else transmitters, generators, in_flight or 0, not no_durable, tls=tls
    )
    rows: list[dict[str, Any]] = []
    for row in run_sweep(stress_options, sizes_of(sweep) if sweep else [clients]):
        rows.append(row)
        say(f"{row['clients']} clients: {row['updates_per_second']:.0f} updates/s")
    summary = {**rows[-1], **({"sweep": rows} if sweep else {})}
    if ablation:
        summary["ablation"] = []
        for step in run_ablation(stress_options):
            summary["ablation"].append(step)
            say(f"{step['step']}: {step['updates_per_second']:.0f} updates/s")
    answer(summary, as_json, stress_text)
