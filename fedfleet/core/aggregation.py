"""Folding: how reports become one aggregate, as data with one interpreter.

A fold says what each report holds and how it enters the sums; features change those fields (`dataclasses.replace`), and
everyone who folds obeys: the server, an executor that adds up in place, an edge that forwards its sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fedfleet.core import exact
from fedfleet.core.clip import clip_factor, slack, squares_of
from fedfleet.core.errors import Refused, RunFailed
from fedfleet.core.noise import Noise
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.core.trees import Array, Tree, mismatch


class Entry(NamedTuple):
    """How one report enters: with which weight, its update scaled by `factor` (in [-1, 1]), into the sum of which name.

    `parts` is the share of the weight that single leaves, or single elements of a leaf, get; 0 where nothing was trained. A named
    tuple: one is made for every report.
    """

    weight: float
    factor: float = 1.0
    sum: str = ""
    parts: exact.Parts | None = None


def plain_entry(weight: float, stats: Mapping[str, float], context: Context) -> Entry:
    """The plain entry: the weight that the report claims."""
    del stats, context
    return Entry(weight)


@dataclass(frozen=True, slots=True)
class Mean:
    """One finished sum: the mean as float32, the total weight, the number of reports."""

    tree: Tree
    weight: float
    count: int


@dataclass(frozen=True, slots=True)
class Aggregate:
    """What a commit applies: the mean of the unnamed sum (empty if there is none), and every sum by name.

    `weight` and `count` are of all reports together.
    """

    mean: Tree
    weight: float
    count: int
    sums: Mapping[str, Mean] = field(default_factory=dict[str, Mean])


CollectedReports = Sequence[tuple[Report, Context]]


TOO_FEW = "and this fold needs"  # in the reason of reports that were refused only because too few came with them


@dataclass(frozen=True, slots=True)
class Fold:
    """How reports become one aggregate.

    `like(server)` is what each report holds: names, shapes and types; bytes and checks follow from it. `enter(weight, stats,
    context)` says how a report enters the sums. `bound` limits each element, or each element of a leaf by its name;
    `total_weight` the weights of one sum, in which there is room for `most_reports` reports of one `heaviest` weight (core.room);
    `fine` names leaves of small scale, which take two limbs. `denominator` replaces the total weight. With `combine` a fold
    collects instead of streaming: it gets all reports in the order of their tasks.
    `ages`: how a report enters depends on its staleness, so that sums that an edge forwards will not do.
    `clip` scales every update down to that Euclidean norm, as computed from what arrived; `noise` is added to the finished sums
    by the runtime, which has the key. Of fewer than `least` reports no aggregate is made. `partial`: a report may hold only a part
    of the model. `intact` says why reports must enter as they were sent, neither clipped, noised nor collected, where they must.
    """

    like: Callable[[ServerState], Tree]
    enter: Callable[[float, Mapping[str, float], Context], Entry] = plain_entry
    bound: float | Callable[[str], float] = 2.0**10
    total_weight: float = 2.0**24
    fine: Callable[[str], bool] | None = None
    denominator: float | None = None
    combine: Callable[[CollectedReports], Tree | None] | None = None
    ages: bool = False
    clip: float | None = None
    noise: Noise | None = None
    least: int = 1
    partial: bool = False
    intact: str | None = None
    most_reports: int = 1

    @property
    def heaviest(self) -> float:
        """The most that one report may weigh: as many as a commit can have fit into a sum, whoever comes first."""
        return exact.share_of_room(self.total_weight, self.most_reports)

    @property
    def streams(self) -> bool:
        """Can reports be added one by one, in any order, wherever they are?"""
        return self.combine is None


@dataclass(slots=True)
class Folding:
    """A fold under way: sums by name, or the reports collected so far. Working memory: `add` and `merge` consume it."""

    like: Tree
    scales: dict[str, exact.Scale]
    sums: dict[str, exact.Accumulator] = field(default_factory=dict[str, exact.Accumulator])
    collected: list[tuple[Report, Context]] = field(default_factory=list[tuple[Report, Context]])

    @property
    def count(self) -> int:
        """How many reports are in it."""
        return len(self.collected) + sum(acc.count for acc in self.sums.values())


def scales_of(fold: Fold, like: Tree) -> dict[str, exact.Scale]:
    """The fixed-point scale of each leaf that is averaged: the floating ones."""
    result: dict[str, exact.Scale] = {}
    for name, leaf in like.items():
        if np.issubdtype(leaf.dtype, np.floating):
            bound = fold.bound(name) if callable(fold.bound) else fold.bound
            two = fold.fine is not None and fold.fine(name)
            result[name] = exact.scale_for(bound, fold.total_weight, two_limbs=two)
    return result


def zero(fold: Fold, server: ServerState) -> Folding:
    """Nothing folded yet."""
    like = fold.like(server)
    return Folding(like, scales_of(fold, like))


def refusal(fold: Fold, acc: Folding, report: Report, context: Context) -> str | None:
    """Why this report cannot be folded; None if it can. Only the report is looked at, not what was folded before."""
    if report.forwarded is not None:
        return _forwarded_refusal(fold, acc, report.forwarded)
    if fold.combine is not None:
        if report.parts:
            return "it trained only a part of the model, which a fold that collects cannot weigh; use the mean"
        odd = mismatch(report.update, acc.like) if acc.like or report.update else None
        return odd or next((f"leaf {n!r} is not finite" for n in acc.scales if not np.isfinite(report.update[n]).all()), None)
    why = exact.refusal(report.update, report.weight, acc.like, acc.scales, fold.heaviest)
    return why or entry_refusal(fold, fold.enter(report.weight, report.stats, context))


def entry_refusal(fold: Fold, entry: Entry) -> str | None:
    """Why nothing can enter in this way; None if it can."""
    if not -1.0 <= entry.factor <= 1.0:
        return f"its factor {entry.factor} is not in [-1, 1]"
    if "|" in entry.sum:
        return f"its sum has the name {entry.sum!r}, and names hold no |"
    return exact.weight_refusal(entry.weight, fold.heaviest)


def check_and_add(fold: Fold, acc: Folding, report: Report, context: Context) -> str | None:
    """Check one report and add it; why it was refused, None if it is in."""
    try:
        if report.forwarded is not None or fold.combine is not None:
            why = refusal(fold, acc, report, context)
            if why is None:
                add(fold, acc, report, context)
            return why
        why = exact.refusal(report.update, report.weight, acc.like, acc.scales, fold.heaviest)
        if why is not None:
            return why
        entry = fold.enter(report.weight, report.stats, context)
        if entry != (report.weight, 1.0, "", None):  # else nothing is new about it
            why = entry_refusal(fold, entry)
            if why is not None:
                return why
        _enter(fold, acc, report, entry)
    except Refused as error:
        return str(error)
    return None


def add(fold: Fold, acc: Folding, report: Report, context: Context) -> Folding:
    """One more report, which `refusal` has let pass. Refused if the sum can take no more weight; then nothing changes."""
    if report.forwarded is not None:
        return merge(fold, acc, report.forwarded)
    if fold.combine is not None:
        acc.collected.append((report, context))
        return acc
    _enter(fold, acc, report, fold.enter(report.weight, report.stats, context))
    return acc


def _enter(fold: Fold, acc: Folding, report: Report, entry: Entry) -> None:
    target = sum_for(acc, entry.sum)
    counted = exact.weight_units(entry.weight)
    if target.weight + counted > fold.total_weight * 2.0**60:
        raise Refused(exact.overweight_refusal(target, entry.weight, fold.total_weight) or "it weighs too much")
    factor = entry.factor
    if fold.clip is not None:
        factor *= clip_factor(fold.clip, squares_of(report.update, acc.scales), slack(acc.like, acc.scales))
    parts = joint_parts(entry.parts, report.parts)
    exact.add(
        target, report.update, entry.weight, acc.scales,
        factor=factor, parts=parts, total_weight=fold.total_weight, counted=counted,
    )  # fmt: skip


def joint_parts(parts: exact.Parts | None, trained: exact.Parts | None) -> exact.Parts | None:
    """What the fold gives each leaf, of what the client trained of it."""
    if parts is None or trained is None:
        return trained if parts is None else parts
    return {n: parts.get(n, 1.0) * trained.get(n, 1.0) for n in (*parts, *trained)}


def sum_for(acc: Folding, name: str) -> exact.Accumulator:
    """The sum of this name, empty if it is new."""
    if name not in acc.sums:
        acc.sums[name] = exact.zero(acc.like, acc.scales)
    return acc.sums[name]


def merge(fold: Fold, a: Folding, b: Folding) -> Folding:
    """The two together; consumes the first. Refused if a sum can take no more weight; then nothing changes."""
    for name, other in b.sums.items():
        current = a.sums.get(name)
        if current is not None and current.weight + other.weight > fold.total_weight * 2.0**60:
            raise Refused(f"with it the weights of one commit would exceed {fold.total_weight:g}; raise the fold's total_weight")
    for name, other in b.sums.items():
        a.sums[name] = exact.merge(a.sums[name], other) if name in a.sums else exact.merge(sum_for(a, name), other)
    a.collected += b.collected
    return a


def _forwarded_refusal(fold: Fold, acc: Folding, sent: Folding) -> str | None:
    """Why sums that an edge forwards cannot be true: no honest reports of that weight add up to them; None if they may be."""
    if mismatch(sent.like, acc.like) if acc.like or sent.like else None:
        return f"its sums are of another shape: {mismatch(sent.like, acc.like)}"
    for part in sent.sums.values():
        weight = math.ldexp(float(part.weight), -60)
        if not 0 <= weight <= fold.heaviest or part.count < 0:
            return f"the weight {weight:g} of its sums is not in [0, {fold.heaviest:g}]"
        for name, scale in acc.scales.items():
            limit = math.ldexp(scale.bound * weight, scale.power) + part.count  # each report was rounded once
            if part.sums[name].size and float(np.abs(part.sums[name].astype(np.float64)).max()) > limit:
                return f"leaf {name!r} of its sums reaches further than reports of weight {weight:g} can"
    return None


def finish(fold: Fold, acc: Folding) -> Aggregate | None:
    """What the commit applies; None if nothing was folded."""
    if fold.combine is not None:
        reports = sorted(acc.collected, key=lambda pair: pair[0].task)
        tree = fold.combine(reports) if reports else None
        if tree is None:
            return None
        _check_shapes(tree, acc.like)
        whole = Mean(tree, math.fsum(r.weight for r, _ in reports), len(reports))
        return Aggregate(tree, whole.weight, whole.count, {"": whole})
    result: dict[str, Mean] = {}
    for name in sorted(acc.sums):
        part = acc.sums[name]
        tree = exact.mean(part, acc.scales, fold.denominator, fold.total_weight)
        if tree is not None:
            result[name] = Mean(tree, math.ldexp(float(part.weight), -60), part.count)
    if not result:
        return None
    plain = result[""].tree if "" in result else {}
    return Aggregate(plain, math.fsum(m.weight for m in result.values()), sum(m.count for m in result.values()), result)


def _check_shapes(tree: Tree, like: Tree) -> None:
    """A collecting fold gives one number for each element: another shape would be broadcast over the model without a word."""
    for name, leaf in tree.items():
        if name in like and np.shape(leaf) != like[name].shape:
            raise RunFailed(
                f"the fold combines reports into leaf {name!r} of shape {np.shape(leaf)}, and the model has {like[name].shape}; "
                "give one number for each element"
            )


def save(acc: Folding) -> Tree:
    """A fold under way as one tree, so that it can be kept, or forwarded by an edge."""
    tree: Tree = {f"{name}|{leaf}": value for name, part in acc.sums.items() for leaf, value in exact.save(part).items()}
    for report, context in acc.collected:
        head = [report.task, report.client, context.staleness], [report.weight, context.seconds]
        tree[f"report|{report.task}|ids"], tree[f"report|{report.task}|floats"] = np.array(head[0]), np.array(head[1])
        tree |= {f"report|{report.task}|update|{leaf}": value for leaf, value in report.update.items()}
        tree |= {f"report|{report.task}|stat|{name}": np.array(value) for name, value in report.stats.items()}
        tree |= {f"report|{report.task}|setting|{name}": np.array(value) for name, value in context.settings.items()}
    return tree


def load(fold: Fold, server: ServerState, tree: Tree) -> Folding:
    """The inverse of `save`."""
    acc = zero(fold, server)
    parts: dict[str, Tree] = {}
    reports: dict[int, dict[str, Array]] = {}
    for key, value in tree.items():
        name, _, rest = key.partition("|")
        if fold.combine is not None:
            task, _, leaf = rest.partition("|")
            reports.setdefault(int(task), {})[leaf] = value
        else:
            parts.setdefault(name, {})[rest] = value
    acc.sums = {name: exact.load(part) for name, part in parts.items()}
    acc.collected = [_load_report(reports[task]) for task in sorted(reports)]
    return acc


def _load_report(leaves: dict[str, Array]) -> tuple[Report, Context]:
    def below(prefix: str) -> Tree:
        return {n[len(prefix) :]: v for n, v in leaves.items() if n.startswith(prefix)}

    task, client, staleness = (int(v) for v in leaves["ids"])
    weight, seconds = (float(v) for v in leaves["floats"])
    stats = {n: float(v) for n, v in below("stat|").items()}
    settings = {n: float(v) for n, v in below("setting|").items()}
    return Report(task, client, below("update|"), weight, stats), Context(staleness, seconds, client, settings)
