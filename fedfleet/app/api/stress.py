"""`fedfleet stress`: how many updates the server takes on this machine, beside gRPC that does nothing else."""

from __future__ import annotations

from typing import Annotated, Any

from fedfleet.app.terminal.answers import Answer, say
from fedfleet.app.terminal.value_checks import Workers, one_of
from fedfleet.core.bounds import Ge, Le
from fedfleet.core.limits import Clients

_COLUMNS = (
    ("clients", "clients"),
    ("round [s]", "seconds"),
    ("updates/s", "updates_per_second"),
    ("raw gRPC/s", "raw_grpc_updates_per_second"),
    ("of raw", "share"),
    ("peak [MB]", "peak_rss_mb"),
    ("B/client", "bytes_per_client"),
    ("check p50/p99 [ms]", "check"),
    ("report p50/p99 [ms]", "hand"),
)


def stress(
    *,
    clients: Clients = 1000,
    payload_bytes: Annotated[int, Ge(16), Le(1 << 32)] = 100_000,
    rounds: Annotated[int, Ge(2), Le(1_000_000)] = 10,
    mode: str = "sync",
    durable: bool = True,
    transmitters: Annotated[int, Ge(0), Le(256)] | None = None,
    in_flight: Annotated[int, Ge(1), Le(1_000_000)] | None = None,
    generators: Workers = 1,
    tls: bool = False,
    http: bool = False,
    ablation: bool = False,
    sweep: str | None = None,
) -> Answer:
    """Serve a run without training to as many clients as wanted, over real gRPC or HTTP on the loopback; print rates and memory.

    The limit beside it is gRPC alone: the same bytes down and up, through as many processes, in the same run.

    Args:
        clients: clients, all of them in every round.
        payload_bytes: bytes of the model and of every report; a multiple of 4.
        rounds: rounds; the first does not count for the rates.
        mode: `sync` or fedbuff (a model for every tenth of the clients).
        durable: acknowledge reports before they are safe on disk.
        transmitters: frontend processes that hold the calls; 0: one process for all.
        in_flight: payloads on their way at once; default: 256, or 48 large ones.
        generators: processes that play clients.
        tls: over TLS 1.3, raw gRPC too.
        http: clients call over HTTP; the limit beside it stays gRPC alone.
        ablation: also without the server's mechanisms, adding one at a time.
        sweep: these numbers of clients instead, one after another.
    """
    from fedfleet.network.stress.stress_plan import Dummy
    from fedfleet.network.stress.stress_run import Stress, run_ablation, run_sweep, sizes_of

    dummy = Dummy(clients, payload_bytes, rounds, one_of("mode", mode, ("sync", "fedbuff")))
    options = Stress(dummy, -1 if transmitters is None else transmitters, generators, in_flight or 0, durable, tls=tls, http=http)
    rows: list[dict[str, Any]] = []
    for row in run_sweep(options, sizes_of(sweep) if sweep else [clients]):
        rows.append(row)
        say(f"{row['clients']} clients: {row['updates_per_second']:.0f} updates/s")
    summary = {**rows[-1], **({"sweep": rows} if sweep else {})}
    if ablation:
        summary["ablation"] = []
        for step in run_ablation(options):
            summary["ablation"].append(step)
            say(f"{step['step']}: {step['updates_per_second']:.0f} updates/s")
    return Answer(summary, stress_text)


def stress_text(answer: dict[str, Any]) -> str:
    """A row for each number of clients; then the ablation, a row a step; then what went wrong."""
    rows = answer.get("sweep", [answer])
    kind = "durable" if answer["durable"] else "not durable"
    title = (
        f"{answer['payload_bytes']:,} bytes each way, {answer['mode']}, {kind}, {answer['transmitters']} transmitters, "
        f"{answer['generators']} generators, {answer['in_flight']} in flight{', TLS' if answer['tls'] else ''}"
        f"{', over HTTP' if answer['http'] else ''}"
    )
    tables = [_table(title, [name for name, _ in _COLUMNS], [[_cell(row, key) for _, key in _COLUMNS] for row in rows])]
    if "ablation" in answer:
        steps = [
            [row["step"], _mean(row["round_seconds"]), f"{row['updates_per_second']:.0f}", f"{row['peak_rss_mb']:.0f}"]
            for row in answer["ablation"]
        ]
        tables.append(_table("one mechanism more at each step", ["server", "round [s]", "updates/s", "peak [MB]"], steps))
    return "\n".join([*tables, *_failed_call_lines(rows)])


def _cell(row: dict[str, Any], key: str) -> str:
    match key:
        case "seconds":
            return _mean(row["round_seconds"])
        case "share":
            return "-" if row["share_of_raw"] is None else f"{row['share_of_raw']:.0%}"
        case "check" | "hand":
            result = row[f"{key}_ms"]
            return f"{result['p50']:.0f} / {result['p99']:.0f}"
        case "clients":
            return f"{row['clients']:,}"
        case _:
            value = row.get(key)
            return "-" if value is None else f"{value:,.0f}"


def _mean(seconds: list[float]) -> str:
    """The mean without the first.

    >>> _mean([9.0, 1.0, 2.0])
    '1.500'
    """
    return f"{sum(seconds[1:]) / max(1, len(seconds) - 1):.3f}"


def _table(title: str, names: list[str], rows: list[list[str]]) -> str:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for i, name in enumerate(names):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    from rich.console import Console

    console = Console(width=160, no_color=True)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _failed_call_lines(rows: list[dict[str, Any]]) -> list[str]:
    return [f"{row['clients']:,} clients: calls that failed: {row['failed_calls']}" for row in rows if row["failed_calls"]]
