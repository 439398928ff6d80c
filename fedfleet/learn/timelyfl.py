"""Partial training: who is short of time trains and sends only the layers nearest to the output.

The share of the work that a task may take is its setting `portion` (1 where nobody sets it; `choose.use = "timely"` does). A client
trains the most layers, counted from the output, whose share of the backward work and whose share of the bytes both stay within
its portion; the last layer always. Cost: the forward pass goes through all layers and is a third of the training work; of the
backward pass, two thirds, there is what belongs to the trained layers; the whole model goes down, the trained layers go up.
A layer's work are its multiply-adds where the run knows the model, else its parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Literal

import numpy as np

from fedfleet.core.aggregation import Aggregate, Entry, joint_parts
from fedfleet.core.cost import TRAINING_PASSES, cost_of
from fedfleet.core.decoders import Decoder
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.exact import Parts
from fedfleet.core.part_facts import FleetFacts
from fedfleet.core.parts import Algorithm, Job
from fedfleet.core.passes import LocalPass, Names
from fedfleet.core.records import Assignments, Context, Cost, Floats, Ints, Report, ServerState
from fedfleet.core.trees import Tree
from fedfleet.learn.composition import with_pass

PORTION = "portion"
_SENT = "timely/sent"  # under the released rule: which layers a report holds, made by the server itself
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class LeafSet:
    """Is a leaf one of these? A value, so that clients that train the same layers train together."""

    names: frozenset[str]
    also: Names | None = None

    def __call__(self, name: str) -> bool:
        return name in self.names and (self.also is None or self.also(name))


@dataclass(frozen=True, slots=True)
class Layers:
    """A model's layers from the output on: the names of each, and the shares of work and bytes of the first k of them."""

    names: tuple[tuple[str, ...], ...]
    work: Floats
    bytes: Floats

    def count_within(self, portion: Floats) -> Ints:
        """How many layers stay within a portion; one at least."""
        room = np.asarray(portion)[:, None] + _SLACK
        return np.maximum(((self.work <= room) & (self.bytes <= room)).sum(1), 1)

    def leaf_names(self, count: int) -> frozenset[str]:
        """The leaves of the first `count` layers."""
        return frozenset(name for layer in self.names[:count] for name in layer)


def layers_of(params: Mapping[str, np.ndarray], work: Mapping[str, float] | None = None) -> Layers:
    """The layers of a model, whose leaves are listed from the input to the output; leaves of one module are one layer.

    >>> found = layers_of({"a.weight": np.zeros(6), "a.bias": np.zeros(2), "head.weight": np.zeros(2)})
    >>> found.names, found.bytes.tolist(), found.count_within(np.array([0.1, 0.5, 1.0])).tolist()
    ((('head.weight',), ('a.weight', 'a.bias')), [0.2, 1.0], [1, 1, 2])
    """
    grouped: dict[str, list[str]] = {}
    for name in params:
        grouped.setdefault(name.rpartition(".")[0], []).append(name)
    names = tuple(tuple(group) for group in reversed(grouped.values()))
    sizes = {n: float(v.size) for n, v in params.items()} if work is None else work
    return Layers(names, _shares(names, sizes), _shares(names, {n: float(v.nbytes) for n, v in params.items()}))


def _shares(names: Sequence[Sequence[str]], sizes: Mapping[str, float]) -> Floats:
    sums = np.array(list(accumulate(sum(sizes.get(n, 0.0) for n in layer) for layer in names)))
    return sums / sums[-1] if sums[-1] else np.ones(len(sums))


def partial_layers(
    algorithm: Algorithm,
    *,
    semantics: Literal["paper", "released"] = "paper",
    fleet: FleetFacts = FleetFacts(),  # noqa: B008
) -> Algorithm:
    """TimelyFL: who would be late trains only the output-side layers; each layer is averaged over those who sent it.

    Zhang et al. 2023, in the variant of FLHetBench (supplement VII.3) with known speeds and the deadline as interval: together with
    choose = { use = "timely", seconds = .. }. w_l += sum_k p_k d_{k,l} / sum_k p_k over the clients k that trained layer l; a layer
    that nobody sent stays. "released" counts the old model as one more client, unweighted, as FLHetBench's code does:
    w_l += sum_k d_{k,l} / (1 + n_l); that code's loss of all but the last tensor of a partial update is not repeated.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> partial_layers(fedavg()).name
    'timelyfl'
    """
    latest: list[tuple[tuple[str, ...], Layers]] = []

    def layers(params: Tree) -> Layers:
        """The layers of a model, worked out once for the names that it has."""
        if not latest or latest[0][0] != tuple(params):
            latest[:] = [(tuple(params), layers_of(params, None if fleet.model is None else fleet.model(1.0).work))]
        return latest[0][1]

    def last_layers(job: Job) -> Job:
        local, result = job.local, layers(job.offer.params)
        assert isinstance(local, LocalPass)
        if local.keep is not None:
            raise BadInput(
                "algorithm: timelyfl sends the last layers of the model, each of them complete, but parts of them would stay on "
                "the device; leave out what is kept, or use another algorithm"
            )
        names = result.leaf_names(int(result.count_within(np.array([job.settings.get(PORTION, 1.0)]))[0]))
        return replace(job, local=_train_only(local, None if len(names) == len(job.offer.params) else names))

    def accept(server: ServerState, report: Report, context: Context) -> Report:
        filled = _fill_layers(layers(server.params), algorithm.fold.like(server), report)
        return filled if algorithm.accept is None else algorithm.accept(server, filled, context)

    def accept_stack(
        server: ServerState, stack: Mapping[str, Any], contexts: Sequence[Context]
    ) -> tuple[dict[str, Any], Parts | None]:
        update, parts = _fill_stack(layers(server.params), algorithm.fold.like(server), stack)
        if inner is None:
            return update, parts
        decoded, others = inner(server, update, contexts)
        return decoded, joint_parts(parts, others)

    def cost(server: ServerState, assignments: Assignments, samples: Ints) -> Cost:
        """A third of the work for the forward pass, the rest by what is trained; and only that goes up."""
        whole, result = cost_of(algorithm, server, assignments, samples), layers(server.params)
        count = result.count_within(assignments.settings.get(PORTION, np.ones(len(assignments.clients)))) - 1
        work = (1.0 + (TRAINING_PASSES - 1.0) * result.work[count]) / TRAINING_PASSES
        return replace(whole, samples=whole.samples * work, bytes_up=np.rint(whole.bytes_up * result.bytes[count]))

    # Where what is wrapped decodes reports one by one, so does this.
    inner = algorithm.accept.stack if isinstance(algorithm.accept, Decoder) else None
    in_stacks = algorithm.accept is None or inner is not None
    passes = with_pass(algorithm, "no layers of it can be left out", lambda p: replace(p, before=(*p.before, last_layers)))
    decoder = Decoder(accept, accept_stack) if in_stacks else accept
    part = replace(passes, name="timelyfl", accept=decoder, fold=replace(algorithm.fold, partial=True), cost=cost)
    return part if semantics == "paper" else _count_old_model(part)


def _train_only(local: LocalPass, names: frozenset[str] | None) -> LocalPass:
    """The pass in which only these leaves are trained, in every stage, and sent."""
    if names is None:
        return local
    then = None if local.then is None else _train_only(local.then, names)
    return replace(local, train=LeafSet(names, local.train), sends=LeafSet(names, local.sends), then=then)


def _missing_leaves(layers: Layers, like: Tree, update: Mapping[str, Any]) -> list[str]:
    """The leaves that an update leaves out; refused unless it holds whole layers from the output on."""
    names = {n for n in like if n in update}
    count = max((k for k, layer in enumerate(layers.names, start=1) if not names.isdisjoint(layer)), default=0)
    if names != layers.leaf_names(count) & like.keys() or not names:
        raise Refused("it does not hold whole layers from the output on")
    return [n for n in like if n not in names]


def _fill_stack(layers: Layers, like: Tree, stack: Mapping[str, Any]) -> tuple[dict[str, Any], Parts | None]:
    """Updates of equal layers with those that they leave out, which weigh nothing and take no memory."""
    missing = _missing_leaves(layers, like, stack)
    some = next(iter(stack.values()))
    zeros = {n: some.new_zeros(1).expand(len(some), *like[n].shape) for n in missing}
    others = {n: v for n, v in stack.items() if n not in like}
    filled = {n: stack[n] if n in stack else zeros[n] for n in like}
    return {**filled, **others}, dict.fromkeys(missing, 0.0) or None


def _fill_layers(layers: Layers, like: Tree, report: Report) -> Report:
    """The report with the layers that it leaves out, which weigh nothing."""
    missing = _missing_leaves(layers, like, report.update)
    update = {n: report.update[n] if n in report.update else np.zeros_like(v) for n, v in like.items()}
    others = {n: v for n, v in report.update.items() if n not in like}
    return replace(report, update={**update, **others}, parts=dict.fromkeys(missing, 0.0) or None)


def _count_old_model(algorithm: Algorithm) -> Algorithm:
    """The fold in which the old model counts as one more client, in every layer: sums, divided by one more than were sent."""
    inner, take = algorithm.fold, algorithm.accept
    assert take is not None

    def like(server: ServerState) -> Tree:
        return {**inner.like(server), _SENT: np.zeros(len(inner.like(server)), np.float32)}

    def enter(weight: float, stats: Mapping[str, float], context: Context) -> Entry:
        return inner.enter(weight, stats, context)._replace(weight=1.0)

    def accept(server: ServerState, report: Report, context: Context) -> Report:
        decoded = take(server, report, context)
        sent = np.array([0.0 if n in (decoded.parts or {}) else 1.0 for n in inner.like(server)], np.float32)
        return replace(decoded, update={**decoded.update, _SENT: sent})

    def apply(server: ServerState, aggregate: Aggregate) -> ServerState:
        sent = dict(zip(inner.like(server), aggregate.mean[_SENT], strict=True))
        mean = {n: v / (1 + sent[n]) for n, v in aggregate.mean.items() if n != _SENT}
        return algorithm.apply(server, replace(aggregate, mean=mean))

    reason = "counts for each update which layers it holds"
    fold = replace(inner, like=like, enter=enter, denominator=1.0, intact=reason)
    return replace(algorithm, fold=fold, accept=accept, apply=apply)
