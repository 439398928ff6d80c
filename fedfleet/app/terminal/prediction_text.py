"""Predictions as text for people."""

from __future__ import annotations

from typing import Any

from fedfleet.app.terminal.text import percent, span

_MARKS = (0.25, 0.5, 0.75, 1.0)


def prediction_text(answer: dict[str, Any]) -> str:
    """What a run will come to, in a few lines."""
    has_model = answer["commits"]["high"] > 0
    lines = [
        *(_accuracy_lines(answer) if has_model else _no_model_lines(answer)),
        *_failure_lines(answer["failed_rounds"]),
        *(_curve_lines(answer["curve"]) if has_model else []),
        *_target_lines(answer.get("target")),
        answer["left_out"]["sentence"],
        *(_clock_lines(answer) if has_model else []),
        *(f"cannot be seen: {note}" for note in answer["notes"]),
        f"{answer['draws']} draws with other seeds than the run's own in {answer['seconds']:.2g} s, after reference runs of "
        f"{answer['reference']['seconds']:.0f} s{' (kept from before)' if answer['reference']['kept'] else ''}",
        *([f"the band is from {answer['band']}"] if has_model else []),
    ]
    return "\n".join(lines)


def _no_model_lines(answer: dict[str, Any]) -> list[str]:
    return [
        f"no model will be made: none of {answer['rounds']:.0f} rounds in {span(answer['virtual_seconds']['value'])} of virtual "
        f"time will end with one; an ideal fleet (everyone alike, always there) reaches {percent(answer['ideal_accuracy'])}"
    ]


def _accuracy_lines(answer: dict[str, Any]) -> list[str]:
    accuracy, commits, seconds = answer["accuracy"], answer["commits"], answer["virtual_seconds"]
    return [
        f"accuracy {percent(accuracy['value'])} at the end, nine times of ten between {percent(accuracy['low'])} and "
        f"{percent(accuracy['high'])}; an ideal fleet (everyone alike, always there) reaches {percent(answer['ideal_accuracy'])}",
        f"{commits['value']:.0f} commits ({commits['low']:.0f} to {commits['high']:.0f}) of {answer['rounds']:.0f} rounds in "
        f"{span(seconds['value'])} of virtual time",
    ]


def _clock_lines(answer: dict[str, Any]) -> list[str]:
    return [
        f"class clock: labels are learnt as by {_clock_range(answer['clock'])} commits of an ideal fleet; the models rest on "
        f"{percent(answer['effective'])} of the fleet's samples"
    ]


def _failure_lines(failed: dict[str, float]) -> list[str]:
    if not failed:
        return []
    return [
        f"failed rounds: {sum(failed.values()):.0f} ({'; '.join(f'{n:.0f} x {reason}' for reason, n in failed.items())})"
    ]


def _curve_lines(curve: dict[str, list[float]]) -> list[str]:
    last = len(curve["seconds"]) - 1
    marks = [round(share * last) for share in _MARKS]
    points = [f"{percent(curve['accuracy'][i])} after {span(curve['seconds'][i])}" for i in marks]
    return [f"on the way: {', '.join(points)}"]


def _target_lines(target: dict[str, Any] | None) -> list[str]:
    if target is None:
        return []
    when = "not within these rounds" if target["seconds"] is None else f"after {span(target['seconds'])}"
    return [f"the accuracy at which the spec stops, {percent(target['accuracy'])}, is reached {when}"]


def _clock_range(clock: dict[str, float]) -> str:
    low, high = min(clock, key=lambda c: clock[c]), max(clock, key=lambda c: clock[c])
    return f"{clock[low]:.0f} (label {low}) to {clock[high]:.0f} (label {high})"


def sweep_text(answer: dict[str, Any]) -> str:
    """A sweep as a table, and what it says."""
    width = max(len(answer["key"]), 12)
    head = f"{answer['key']:>{width}}  {'accuracy':>9}  {'commits':>7}  {'ends after':>10}  {'to target':>10}  {'never in':>8}"
    rows = [
        f"{row['value']:>{width}}  {_ends_at(row):>9}  {row['commits']:>7.0f}  {span(row['virtual_seconds']):>10}  "
        f"{'-' if row['seconds_to_target'] is None else span(row['seconds_to_target']):>10}  {percent(row['never']):>8}"
        for row in answer["rows"]
    ]
    note = f"target: {percent(answer['target'])}, nine tenths of what an ideal fleet reaches; {answer['seconds']:.2g} s"
    return "\n".join([head, *rows, note, answer["sentence"]])


def _ends_at(row: dict[str, Any]) -> str:
    return percent(row["accuracy"]) if row["commits"] else "no model"
