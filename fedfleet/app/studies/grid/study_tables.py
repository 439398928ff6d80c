"""The results of a study as a table for people: in a terminal, in Markdown, in LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedfleet.app.studies.grid.quantities import Aims
from fedfleet.app.terminal.text import percent, size, span

Row = Mapping[str, Any]
Table = tuple[list[str], list[list[str]]]
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip


def results_table(rows: Sequence[Row], baseline: str | None, aims: Aims) -> Table:
    """Header and cells: a line for every arm, units on every number, 95 % intervals in brackets."""
    columns: dict[str, Callable[[Row], str]] = {"arm": lambda row: row["arm"], "runs": _runs}
    columns["accuracy at the end"] = lambda row: mean_text(row["accuracy"], percent)
    if aims.equal_time is not None:
        columns[f"accuracy after {span(aims.equal_time)}"] = lambda row: mean_text(
            row["accuracy_at_equal_time"], percent
        )
    columns["virtual time"] = lambda row: mean_text(row["virtual_seconds"], span, interval=False)
    columns["sent up"] = lambda row: mean_text(row["bytes_up"], size, interval=False)
    columns["sent down"] = lambda row: mean_text(row["bytes_down"], size, interval=False)
    if aims.target is not None:
        columns[f"median time to {percent(aims.target)}"] = _time_text
    if baseline is not None:
        columns[f"against {baseline}"] = lambda row: _against(row, baseline)
    return list(columns), [[show(row) for show in columns.values()] for row in rows]


def mean_text(mean: Mapping[str, Any] | None, unit: Callable[[float], str], *, interval: bool = True) -> str:
    """A mean with its interval, in this unit.

    >>> mean_text({"value": 0.9, "sd": 0.01, "low": 0.88, "high": 0.92, "n": 5}, percent)
    '90.0 % [88.0 % to 92.0 %]'
    """
    if mean is None:
        return "none"
    if not interval or mean["low"] is None:
        return unit(mean["value"])
    return f"{unit(mean['value'])} [{unit(mean['low'])} to {unit(mean['high'])}]"


def _runs(row: Row) -> str:
    return f"{row['runs']}, {row['failed']} failed" if row["failed"] else str(row["runs"])


def _time_text(row: Row) -> str:
    time = row["time_to_target"]
    if time is None:
        return "none"
    text = "not by half" if time["median"] is None else span(time["median"])
    return f"{text} ({time['never']} of {row['runs']} never)" if time["never"] else text


def _against(row: Row, baseline: str) -> str:
    if row["arm"] == baseline:
        return "the baseline"
    pair = row.get("against")
    if pair is None or pair["difference"] is None:
        return "no common seed"
    text = f"{100 * pair['difference']:+.1f} points"
    if pair["p_holm"] is None:
        return f"{text} (one seed)"
    p = "p < 0.001" if pair["p_holm"] < 0.001 else f"p = {pair['p_holm']:.3f}"
    if pair["low"] is None:
        return f"{text} on each seed, {p}"
    return f"{text} [{100 * pair['low']:+.1f} to {100 * pair['high']:+.1f}], {p}"


def align_table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table in a terminal.

    >>> print(align_table(["arm", "runs"], [["lr=0.1", "5"]]))
    arm     runs
    lr=0.1  5
    """
    lines = [header, *body]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def markdown(header: Sequence[str], body: Sequence[Sequence[str]], name: str, verdict: str) -> str:
    """The same with the conclusion before it."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(map(escape_markdown, cells))} |"

    rule = line(["---"] * len(header))
    notes = "Means over seeds; 95 % intervals (Student) in brackets; p by paired t tests on common seeds, corrected by Holm."
    return "\n".join(
        [
            f"# {escape_markdown(name)}",
            "",
            escape_markdown(verdict),
            "",
            line(header),
            rule,
            *map(line, body),
            "",
            notes,
            "",
        ]
    )


def escape_markdown(text: str) -> str:
    """Text in Markdown that stays as it is: what would be a cell, a tag, or emphasis is none.

    >>> print(escape_markdown("a|b <i>*c*</i> d_e"))
    a\\|b \\<i>\\*c\\*\\</i> d_e
    """
    return re.sub(r"([\\|<*`~])", r"\\\1", text)


def latex(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """The same as a tabular of the package booktabs."""

    def line(cells: Sequence[str]) -> str:
        text = " & ".join("".join(_LATEX.get(letter, letter) for letter in cell) for cell in cells)
        return ("{}" if text.startswith(("[", "*")) else "") + text + r" \\"  # of the line before, else

    columns = "l" * len(header)
    lines = [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        line(header),
        r"\midrule",
        *map(line, body),
        r"\bottomrule",
    ]
    return "\n".join([*lines, r"\end{tabular}", ""])
