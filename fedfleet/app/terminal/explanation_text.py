"""Where the time of a run went, as text for people: a table of causes, the longest rounds, one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedfleet.app.terminal.text import percent, span
from fedfleet.measure.attribution.sentences import MEANINGS, share

_LEADING = 3  # causes that are named for a round


def explanation_text(answer: dict[str, Any]) -> str:
    """Causes from the largest down, what they mean, and who was waited for; causes that took no time are left out."""
    total = answer["virtual_seconds"]
    rounds = f"{answer['rounds']} {'round' if answer['rounds'] == 1 else 'rounds'}"
    causes = sorted((c for c, s in answer["causes"].items() if s > 0), key=lambda c: -answer["causes"][c])
    lines = [f"{span(total)} of {answer.get('clock', 'virtual')} time, {rounds}", ""] if causes else []
    for cause in causes:
        seconds = answer["causes"][cause]
        who = answer["behind"].get(cause, "")
        lines.append(
            f"{cause:<13} {span(seconds):>10} {share(seconds, total):>9}  {MEANINGS[cause]}{f', {who}' if who else ''}"
        )
    lines += _failure_lines(answer["failures"])
    lines += _round_lines(answer.get("longest_rounds", []))
    lines += _shapley_lines(answer)
    return "\n".join(
        [*lines, *([""] if lines else []), answer["sentence"], *(f"note: {note}" for note in answer["notes"])]
    )


def _shapley_lines(answer: Mapping[str, Any]) -> list[str]:
    """What removing each cause would change, on average over all orders of removing them; nothing where nobody asked."""
    if not answer.get("present"):
        return []
    heading = f"time to {percent(answer['target'])}"
    lines = ["", f"{'without':<18} {heading:>20} {'last model':>12}"]
    for cause in answer["present"]:
        value = answer["shapley"][cause]
        seconds, points = value["time_to_accuracy"], 100 * value["accuracy"]
        longer = f"{'-' if seconds < 0 else '+'}{span(abs(seconds))}"
        lines.append(f"{cause:<18} {longer:>20} {points:>+10.1f} %")
    return [*lines, f"more is in {answer['page']}"] if "page" in answer else lines


def _failure_lines(failures: Mapping[str, float]) -> list[str]:
    """Why rounds failed, and how long that took."""
    ranked = sorted(failures, key=lambda reason: -failures[reason])
    return ["", *(f"failed: {span(failures[reason])} because {reason}" for reason in ranked)] if ranked else []


def _round_lines(longest: list[dict[str, Any]]) -> list[str]:
    """The longest rounds, each with what most of it went into."""
    if not longest:
        return []
    lines = ["", f"{'round':>7} {'seconds':>12}  went into"]
    for r in longest:
        ranked = sorted(r["causes"], key=lambda c: -r["causes"][c])[:_LEADING]
        parts = ", ".join(f"{share(r['causes'][c], r['seconds'])} {c}" for c in ranked)
        closed = (
            f"; closed by client {r['client']}"
            if r["client"] is not None
            else f"; {r['reason']}"
            if r["reason"]
            else ""
        )
        lines.append(f"{r['round'] + 1:>7} {r['seconds']:>12,.1f}  {parts}{closed}")
    return lines
