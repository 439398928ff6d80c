"""A comparison as text for people: arms in a table, what differs, the verdict and what to know beside it."""

from __future__ import annotations

import json
from typing import Any

from fedfleet.app.terminal.text import percent, size, span

_WIDEST = 44  # of a name
_VALUES = 60  # characters of the values of a key
_KEYS = 12  # keys that are listed; --json has all


def comparison_text(answer: dict[str, Any]) -> str:
    """Arms, differing keys, verdict, caveats."""
    return "\n".join([
        *_table(answer), "", *_differs(answer["differs"]), "",
        answer["verdict"], *(f"note: {caveat}" for caveat in answer["caveats"]),
        *([f"page: {answer['page']}"] if "page" in answer else []),
    ])  # fmt: skip


def _table(answer: dict[str, Any]) -> list[str]:
    """A row for each arm; intervals are of the mean over seeds, 95 %."""
    when = answer["at_equal_time"]
    clocks = {arm["clock"] for arm in answer["arms"]}
    both = len(clocks) > 1
    heads = [
        "arm", "seeds", "accuracy at the end", f"at {span(when['seconds'])}" if when else "at equal time",
        "to a target" if answer["target"] is None else f"time to {percent(answer['target'])}",
        "time" if both else f"{clocks.pop()} time", "traffic",
    ]  # fmt: skip
    rows = [_row(arm, both=both) for arm in answer["arms"]]
    widths = [max(len(line[i]) for line in [heads, *rows]) for i in range(len(heads))]
    lines = [_line(cells, widths) for cells in [heads, *rows]]
    over = any(arm["at_end"]["mean"] and arm["at_end"]["mean"]["n"] > 1 for arm in answer["arms"])
    note = "means over seeds, in brackets their 95 % interval; time to a target: the median (Kaplan-Meier)"
    return [*lines, *([note] if over else [])]


def _row(arm: dict[str, Any], *, both: bool) -> list[str]:
    clock = f" {arm['clock']}" if both else ""
    name = arm["name"] if len(arm["name"]) <= _WIDEST else f"{arm['name'][: _WIDEST - 2]}.."
    return [
        name,
        str(len(arm["seeds"])),
        _accuracy_text(arm["at_end"]),
        _accuracy_text(arm["at_equal_time"]),
        _time_text(arm["time_to_target"]),
        f"{span(arm['virtual_seconds'])}{clock}",
        size(arm["bytes_down"] + arm["bytes_up"]),
    ]


def _line(cells: list[str], widths: list[int]) -> str:
    return "  ".join([cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))])


def _accuracy_text(accuracy: dict[str, Any] | None) -> str:
    """An accuracy with its interval; how many runs have none."""
    if accuracy is None or accuracy["mean"] is None:
        return "no model" if accuracy is not None and accuracy["nothing"] else "-"
    mean = accuracy["mean"]
    between = "" if mean["low"] is None else f" ({100 * mean['low']:.1f} to {100 * mean['high']:.1f})"
    lacking = ", no model" if accuracy["nothing"] else f", {accuracy['missing']} without" if accuracy["missing"] else ""
    return f"{percent(mean['value'])}{between}{lacking}"


def _time_text(times: dict[str, Any] | None) -> str:
    if times is None:
        return "-"
    if times["median"] is None:
        return "never" if not times["reached"] else f"{times['reached']} of {times['runs']}"
    return span(times["median"])


def _differs(differs: dict[str, list[Any]]) -> list[str]:
    """Keys with their different values, each value once."""
    if not differs:
        return ["the specs do not differ"]
    width = max(len(key) for key in list(differs)[:_KEYS])
    lines = ["what differs:"]
    for key, values in list(differs.items())[:_KEYS]:
        each = ", ".join(
            dict.fromkeys("-" if v is None else v if isinstance(v, str) else json.dumps(v) for v in values)
        )
        lines.append(f"  {key:<{width}}  {each if len(each) <= _VALUES else f'{each[: _VALUES - 2]}..'}")
    more = len(differs) - _KEYS
    return [*lines, *([f"  and {more} more keys; --json has all"] if more > 0 else [])]
