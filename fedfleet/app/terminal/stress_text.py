"""What a stress run found, as tables for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

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


def stress_text(answer: dict[str, Any]) -> str:
    """A row for each number of clients; then the ablation, a row a step; then what went wrong."""
    rows = answer.get("sweep", [answer])
    kind = "durable" if answer["durable"] else "not durable"
    title = (
        f"{answer['payload_bytes']:,} bytes each way, {answer['mode']}, {kind}, {answer['transmitters']} transmitters, "
        f"{answer['generators']} generators, {answer['in_flight']} in flight{', TLS' if answer['tls'] else ''}"
    )
    tables = [_table(title, [name for name, _ in _COLUMNS], [[_cell(row, key) for _, key in _COLUMNS] for row in rows])]
    if "ablation" in answer:
        steps = [
            [row["step"], _mean(row["round_seconds"]), f"{row['updates_per_second']:.0f}", f"{row['peak_rss_mb']:.0f}"]
            for row in answer["ablation"]
        ]
        tables.append(
            _table("one mechanism more at every step", ["server", "round [s]", "updates/s", "peak [MB]"], steps)
        )
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
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(names):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console(width=160, no_color=True)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _failed_call_lines(rows: list[dict[str, Any]]) -> list[str]:
    return [
        f"{row['clients']:,} clients: calls that failed: {row['failed_calls']}" for row in rows if row["failed_calls"]
    ]
