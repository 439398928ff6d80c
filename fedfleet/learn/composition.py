"""How features are put together: named methods with each parameter declared once, changes to every client's pass, and what
travels beside the model in both directions."""

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
    >>> from fedfleet.learn.objective_terms import proximal
    >>> sorted(set(parameters(method(proximal, fedavg))) - set(parameters(fedavg)))
    ['mu']
    """
    theirs = {n: (hint, p.replace(default=defaults.get(n, p.default))) for n, (hint, p) in parameters(inner).items()}
    own = dict(list(parameters(feature).items())[1:])  # the first is the algorithm itself
    clash = {n for n in theirs.keys() & own.keys() if own[n][0] is not RunFacts}
    if defaults.keys() - theirs.keys():
        raise TypeError(f"{inner.__name__} has no parameter {sorted(defaults.keys() - theirs.keys())[0]!r}")
    if clash:
        raise TypeError(f"{feature.__name__} and {inner.__name__} both declare {sorted(clash)}")

    def build(**given: object) -> Algorithm:
        unknown = given.keys() - theirs.keys() - own.keys()
        if unknown:
            raise TypeError(f"{feature.__name__}: unknown parameter {sorted(unknown)[0]!r}")
        part = inner(**{n: v for n, v in (defaults | given).items() if n in theirs})
        return feature(part, **{n: v for n, v in given.items() if n in own})

    named = inspect.Parameter.KEYWORD_ONLY  # whatever order the two declare theirs in
    merged = [p.replace(kind=named) for _, p in {**own, **theirs}.values()]
    build.__signature__ = inspect.Signature(merged, return_annotation=Algorithm)  # type: ignore[attr-defined]
    build.__annotations__ = {n: hint for n, (hint, _) in {**own, **theirs}.items()}
    build.__doc__ = feature.__doc__
    build.__name__ = feature.__name__
    return build


def with_pass(algorithm: Algorithm, otherwise: str, change: Callable[[LocalPass], LocalPass]) -> Algorithm:
    """The algorithm whose clients' passes are changed in the same way; `otherwise` says why an opaque pass will not do."""
    last: list[tuple[LocalPass, LocalPass]] = []  # most clients have the very same pass: what it becomes is made once

    def local(client: int, settings: Settings) -> LocalPass:
        inner = algorithm.local(client, settings)
        if not isinstance(inner, LocalPass):
            raise BadInput(f"{algorithm.name} has an opaque local pass, so {otherwise}")
        known = last[0] if last else None
        if known is None or known[0] is not inner:
            known = inner, change(inner)
            last[:] = [known]
        return known[1]

    return replace(algorithm, local=local)


def with_extra(algorithm: Algorithm, extra: Callable[[ServerState], Tree]) -> Algorithm:
    """The algorithm whose offers carry more beside the model.

    Clients that are offered the same are offered the same object, so that a stack holds it once.
    """
    last: list[tuple[Offer, ServerState, Offer]] = []

    def offer(server: ServerState, client: int, settings: Settings) -> Offer:
        inner = algorithm.offer(server, client, settings)
        if not last or last[0][0] is not inner or last[0][1] is not server:
            last[:] = [(inner, server, Offer(inner.params, {**inner.extra, **extra(server)}))]
        return last[0][2]

    return replace(algorithm, offer=offer)


def set_apart(aggregate: Aggregate, prefix: str) -> tuple[Aggregate, Tree]:
    """The aggregate without the leaves whose names begin so, and the mean of those leaves by the rest of their names."""

    def rest(tree: Tree) -> Tree:
        return {n: v for n, v in tree.items() if not n.startswith(prefix)}

    mine = {n.removeprefix(prefix): v for n, v in aggregate.mean.items() if n.startswith(prefix)}
    sums = {name: replace(mean, tree=rest(mean.tree)) for name, mean in aggregate.sums.items()}
    return replace(aggregate, mean=rest(aggregate.mean), sums=sums), mine
