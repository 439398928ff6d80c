"""How features are put together: named methods with each parameter declared once, and changes to every client's pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Algorithm
from fedfleet.core.passes import LocalPass
from fedfleet.core.records import Settings
from fedfleet.core.registry import parameters

Builder = Callable[..., Algorithm]


def method(feature: Builder, inner: Builder) -> Builder:
    """The builder of `feature(inner(..), ..)`: its signature is the inner one's and the feature's own, flat.

    >>> from fedfleet.learn.averaging import fedavg
    >>> from fedfleet.learn.terms import proximal
    >>> sorted(set(parameters(method(proximal, fedavg))) - set(parameters(fedavg)))
    ['mu']
    """
    theirs = parameters(inner)
    own = dict(list(parameters(feature).items())[1:])  # the first is the algorithm itself
    clash = theirs.keys() & own.keys()
    if clash:
        raise TypeError(f"{feature.__name__} and {inner.__name__} both declare {sorted(clash)}")

    def build(**given: object) -> Algorithm:
        unknown = given.keys() - theirs.keys() - own.keys()
        if unknown:
            raise TypeError(f"{feature.__name__}: unknown parameter {sorted(unknown)[0]!r}")
        part = inner(**{n: v for n, v in given.items() if n in theirs})
        return feature(part, **{n: v for n, v in given.items() if n in own})

    # As it is called, whatever theirs are.
    merged = [p.replace(kind=p.KEYWORD_ONLY) for _, p in {**own, **theirs}.values()]
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
