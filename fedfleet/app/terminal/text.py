"""Answers as text for people: short, aligned, with units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def run_text(answer: dict[str, Any], metrics: dict[str, Any]) -> str:
    """How a run ended, in a few lines."""
    lines = [
        f"{answer['rounds']} rounds, {answer['commits']} commits in {span(answer['virtual_seconds'])} of virtual time "
        f"({answer['wall_seconds']:.1f} s of real time), stopped by {metrics.get('stopped_by')}",
        f"accuracy {percent(answer['accuracy'])} on the central test set; clients {percent(answer['accuracy_clients'])}, "
        f"10th-percentile client {percent(answer['accuracy_bottom10'])}, "
        f"mean of the worst tenth {percent(metrics.get('accuracy_worst10_mean'))}",
        *unseen_lines(metrics),
        *failure_lines(answer["failed_rounds"]),
        *privacy_lines(answer.get("privacy")),
        f"{size(answer['bytes_down'])} down, {size(answer['bytes_up'])} up",
        *energy_lines(metrics.get("energy")),
        f"digest {answer['digest'][:16]}; see {answer['out']}/report.html",
    ]
    return "\n".join(lines)


def unseen_lines(metrics: dict[str, Any]) -> list[str]:
    """How the model does for whom it did not learn from: people held out, clients who never took part.

    >>> shown_apart({"accuracy_unseen": 0.5, "accuracy_never": None, "accuracy_took_part": 0.8})
    ['new people, of whom nothing was trained on: 50.0 %']
    """
    new, never, others = (metrics.get(f"accuracy_{name}") for name in ("unseen", "never", "took_part"))
    result = [] if new is None else [f"new people, of whom nothing was trained on: {percent(new)}"]
    apart = f"clients who never took part: {percent(never)}, the others: {percent(others)}"
    return result if never is None else [*result, apart]


def energy_lines(energy: dict[str, Any] | None) -> list[str]:
    """What a run drew from batteries, and how much of it for nothing; nothing if nobody counted.

    >>> shown_energy({"joules": 5000.0, "useful": 4000.0, "wasted": 1000.0, "probes": 0.0, "grams": None})
    ['5.0 kJ from batteries, 20.0 % of them for work that entered no model']
    """
    if not energy:
        return []
    wasted = energy["wasted"] / energy["joules"] if energy["joules"] else 0.0
    carbon = "" if energy["grams"] is None else f", {energy['grams']:.3g} g of CO2"
    return [
        f"{joules(energy['joules'])} from batteries, {percent(wasted)} of them for work that entered no model{carbon}"
    ]


def failure_lines(failed: dict[str, int]) -> list[str]:
    """How many rounds failed, by reason; nothing if none did."""
    if not failed:
        return []
    from fedfleet.measure.warnings import reason_text

    return [
        f"failed rounds: {sum(failed.values())} ({'; '.join(f'{n} x {reason_text(reason)}' for reason, n in failed.items())})"
    ]


def privacy_lines(privacy: dict[str, Any] | None) -> list[str]:
    """The privacy loss of a run, with what is claimed."""
    if not privacy:
        return []
    epsilon = "without a bound" if privacy["epsilon"] is None else f"{privacy['epsilon']:.3g}"
    return [f"privacy: epsilon {epsilon} at delta {privacy['delta']:g}: {privacy['claim']}"]


def replay_text(answer: dict[str, Any]) -> str:
    """What a replay verified, and what it could not."""
    lines = [
        f"replayed {answer['rows']} rows with {answer['commits']} models: nothing contradicts what the run is",
        f"verified: {', '.join(answer['verified'])}",
        f"not verified: {', '.join(answer['not_verified'])}{'; ' + answer['because'] if answer['because'] else ''}",
        f"digest {answer['digest'][:16]}{'' if answer['ended'] else '; the run has not ended yet'}",
    ]
    return "\n".join(lines)


def verification_text(answer: dict[str, Any]) -> str:
    """What the seals of a run prove."""
    sealed = "sealed" if answer["sealed"] else "not sealed yet: the run has not ended"
    signed = (
        f"signed by {answer['signed_by']}"
        if answer["signed_by"]
        else "not signed: whoever can write it can seal it anew"
    )
    return (
        f"{answer['out']} is {sealed}, {signed}\nunchanged: {', '.join(answer['verified'])}\n"
        f"not verified: {', '.join(answer['not_verified'])}\ndigest {answer['digest'][:16]}"
    )


def parts_text(answer: dict[str, Any]) -> str:
    """Parts with their parameters, one block per part."""
    if not answer["items"]:
        return f"there are no {answer['kind']} yet"
    blocks = []
    for item in answer["items"]:
        lines = [f"{item['name']}: {item['summary']}"]
        if not item.get("data_here", True):
            lines[0] += " (data not here)"
        blocks += [*lines, *_parameter_lines(item["parameters"])]
    if "around" in answer:
        blocks += ["around any of them, as further keys of [algorithm]:", *_parameter_lines(answer["around"])]
    return "\n".join(blocks)


def _parameter_lines(parameters: dict[str, Any]) -> list[str]:
    """Parameters, a line each."""
    defaults = {n: "required" if p["required"] else f"default {p['default']}" for n, p in parameters.items()}
    return [f"    {name:<16} {p['type']:<36} {defaults[name]}" for name, p in parameters.items()]


def metrics_text(metrics: dict[str, Any]) -> str:
    """All measures, one per line."""
    width = max(map(len, metrics))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in metrics.items())


_MEANING = {
    "DevMC-R": "devices, rounds with a deadline: higher is easier",
    "DevMC-T": "devices, waiting for a share of the cohort: lower is easier",
    "StatMC-R": "reachability, rounds with a deadline: higher is easier",
    "StatMC-T": "reachability, waiting for a share of the cohort: lower is easier",
    "InterMC-R": "both, rounds with a deadline: higher is easier",
    "InterMC-T": "both, waiting for a share of the cohort: lower is easier",
}


def fleet_metrics_text(answer: dict[str, Any]) -> str:
    """The metrics of a fleet, each with its meaning."""
    lines = []
    for name, meaning in _MEANING.items():
        if name in answer:
            metric = answer[name]
            lines.append(
                f"{name:<10} {metric['value']:>10.4g}  {interval(metric):<46} {meaning}; {_round_meaning(metric)}"
            )
    lines += [f"note: {note}" for name in _MEANING if name in answer for note in answer[name]["notes"]]
    scores = answer.get("per_state")
    if scores:
        values = sorted(scores.values())
        worst, median, best = values[0], values[len(values) // 2], values[-1]
        lines.append(
            f"{len(values)} different states: the worst scores {worst:.3f}, the median {median:.3f}, the best {best:.3f}"
        )
    if "against" in answer:
        lines.append(", ".join(f"{k} {v:.4g}" for k, v in answer["against"].items()))
    return "\n".join(lines)


def _round_meaning(metric: dict[str, Any]) -> str:
    """What a metric means for a round.

    >>> _comes_to({"fair_work": 0.44}), _comes_to({"round_seconds": 7200.0})
    ('44.0 % of fair work gets through', 'a round takes 2.0 h')
    """
    if "fair_work" in metric:
        return f"{percent(metric['fair_work'])} of fair work gets through"
    return f"a round takes {span(metric['round_seconds'])}"


def demo_text(answer: dict[str, Any]) -> str:
    """The demo's finding, its answer, a row for each way to train on each fleet, and where its page is."""
    lines = [answer["finding"], "", answer["answer"], ""]
    lines.append(
        f"{'fleet':<8} {'way to train':<18} {'after the hours':>16} {'at the end':>11} {'total time':>11} {'never took part':>16}"
    )
    lines += [
        f"{r['fleet']:<8} {r['method']:<18} {percent(r['accuracy_at_equal_time']):>16} {percent(r['accuracy']):>11} "
        f"{span(r['virtual_seconds']):>11} {r['never']:>16.0f}"
        for r in answer["ways"]
    ]
    return "\n".join([*lines, "", f"page: {answer['report']} ({answer['wall_seconds']:.0f} s)"])


def datasets_text(answer: dict[str, Any]) -> str:
    """The datasets that can be fetched."""
    lines = []
    for d in answer["datasets"]:
        total = size(sum(f["bytes"] or 0 for f in d["files"]))
        more = "" if all(f["bytes"] for f in d["files"]) else " and more"
        lines += [f"{d['name']:<12} {d['summary']}", f"{'':<12} {len(d['files'])} files, {total}{more}; {d['terms']}"]
    return "\n".join([*lines, "fetch one with: fedfleet data NAME"])


def fetch_text(answer: dict[str, Any]) -> str:
    """Which files are there now, how they were checked, and how to use them."""
    lines = []
    for f in answer["files"]:
        status = "fetched" if f["fetched_bytes"] else "already there"
        lines += [f"{f['file']}: {size(f['bytes'])}, {status}, {f['checked']}", f"    sha256 {f['sha256']}"]
    return "\n".join([*lines, f"terms: {answer['terms']}", *(f"use as {words}" for words in answer["use"])])


def interval(metric: dict[str, Any]) -> str:
    """The labelled interval of a metric.

    >>> interval({"ci95": [0.9, 1.1], "seeds": 3})
    '95 % interval 0.9 to 1.1 over 3 seeds'
    """
    if metric["ci95"] is None:
        return "one seed, so no interval"
    low, high = metric["ci95"]
    return f"95 % interval {low:.4g} to {high:.4g} over {metric['seeds']} seeds"


def join_words(words: Sequence[str], most: int | None = None) -> str:
    """Words as a list in a sentence; of more than `most` the first so many, and how many more.

    >>> listed([]), listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"]), listed(["a", "b", "c"], most=2)
    ('', 'a', 'a and b', 'a, b and c', 'a, b and 1 more')
    """
    if most is not None and len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def percent(x: float | None) -> str:
    """0.9123 as 91.2 %."""
    return "-" if x is None else f"{100 * x:.1f} %"


def span(seconds: float) -> str:
    """Seconds in a convenient unit."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"


def size(nbytes: float) -> str:
    """Bytes in a convenient unit."""
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= length:
            return f"{nbytes / length:.1f} {unit}"
    return f"{nbytes:.0f} B"


def joules(x: float) -> str:
    """Joules in a convenient unit."""
    for unit, length in (("GJ", 1e9), ("MJ", 1e6), ("kJ", 1e3)):
        if x >= length:
            return f"{x / length:.1f} {unit}"
    return f"{x:.0f} J"
