"""How features are put together: named methods, changes to every client's pass, and what travels alongside the model."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace

from fedfleet.core.aggregation import Aggregate
from fedfleet.core.errors import BadInput
from fedfleet.core.part_facts import RunFacts
from fedfleet.core.parts import Algorithm, Offer
from fedfleet.core.passes import LocalPass
from fedfleet.core.records import ServerState, Settings
from fedfleet.core.registry import parameters
from fedfleet.core.trees import Tree

Builder = Callable[..., Algorithm]


def method(feature: Builder, inner: Builder, **defaults: object) -> Builder:
    """The builder of `feature(inner(..), ..)`: its signature is the inner one's and the feature's own, flat.

    `defaults` replace those of the inner one's parameters, where a method has other habits. What both declare would be
    ambiguous, but for the facts of the run, which both may ask for.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> from fedfleet.learn.objectives import proximal
    >>> sorted(set(parameters(method(proximal, fedavg))) - set(parameters(fedavg)))
    ['mu']
    """
    inner_params = {n: (hint, p.replace(default=defaults.get(n, p.default))) for n, (hint, p) in parameters(inner).items()}
    own_params = dict(list(parameters(feature).items())[1:])  # the first is the algorithm itself
    clash = {n for n in inner_params.keys() & own_params.keys() if own_params[n][0] is not RunFacts}
    if defaults.keys() - inner_params.keys():
        raise TypeError(f"{inner.__name__} has no parameter {sorted(defaults.keys() - inner_params.keys())[0]!r}")
    if clash:
        raise TypeError(f"{feature.__name__} and {inner.__name__} both declare {sorted(clash)}")

    def build(**values: object) -> Algorithm:
        unknown = values.keys() - inner_params.keys() - own_params.keys()
        if unknown:
            raise TypeError(f"{feature.__name__}: unknown parameter {sorted(unknown)[0]!r}")
        part = inner(**{n: v for n, v in (defaults | values).items() if n in inner_params})
        return feature(part, **{n: v for n, v in values.items() if n in own_params})

    keyword_only = inspect.Parameter.KEYWORD_ONLY  # whatever order the two declare theirs in
    merged = [p.replace(kind=keyword_only) for _, p in {**own_params, **inner_params}.values()]
    build.__signature__ = inspect.Signature(merged, return_annotation=Algorithm)  # type: ignore[attr-defined]
    build.__annotations__ = {n: hint for n, (hint, _) in {**own_params, **inner_params}.items()}
    build.__doc__ = feature.__doc__
    build.__name__ = feature.__name__
    return build


def with_pass(algorithm: Algorithm, reason: str, change: Callable[[LocalPass], LocalPass]) -> Algorithm:
    """The algorithm whose clients' passes are changed in the same way; `reason` says why an opaque pass will not do."""
    latest: list[tuple[LocalPass, LocalPass]] = []  # most clients have the same pass: its changed form is made once

    def local(client: int, settings: Settings) -> LocalPass:
        inner = algorithm.local(client, settings)
        if not isinstance(inner, LocalPass):
            raise BadInput(
                f"{algorithm.name} trains its clients with a function of its own, which cannot be changed from outside, so {reason}"
            )
        known = latest[0] if latest else None
        if known is None or known[0] is not inner:
            known = inner, change(inner)
            latest[:] = [known]
        return known[1]

    return replace(algorithm, local=local)


def with_extra(algorithm: Algorithm, extra: Callable[[ServerState], Tree]) -> Algorithm:
    """The algorithm whose offers carry more alongside the model; equal offers are one object, so that a stack holds it once."""
    latest: list[tuple[Offer, ServerState, Offer]] = []

    def offer(server: ServerState, client: int, settings: Settings) -> Offer:
        inner = algorithm.offer(server, client, settings)
        if not latest or latest[0][0] is not inner or latest[0][1] is not server:
            latest[:] = [(inner, server, Offer(inner.params, {**inner.extra, **extra(server)}))]
        return latest[0][2]

    return replace(algorithm, offer=offer)


def split_aggregate(aggregate: Aggregate, prefix: str) -> tuple[Aggregate, Tree]:
    """The aggregate without the leaves whose names begin so, and the mean of those leaves by the rest of their names."""

    def without_prefix(tree: Tree) -> Tree:
        return {n: v for n, v in tree.items() if not n.startswith(prefix)}

    part = {n.removeprefix(prefix): v for n, v in aggregate.mean.items() if n.startswith(prefix)}
    sums = {name: replace(mean, tree=without_prefix(mean.tree)) for name, mean in aggregate.sums.items()}
    return replace(aggregate, mean=without_prefix(aggregate.mean), sums=sums), part
