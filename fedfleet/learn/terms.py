"""Terms of the local objective, as functions from algorithm to algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import NonNegative
from fedfleet.core.parts import Algorithm
from fedfleet.core.passes import GradientTerm, LocalPass, Pull
from fedfleet.core.records import Settings


def proximal(algorithm: Algorithm, *, mu: NonNegative = 0.01) -> Algorithm:
    """FedProx: keep clients near the model they were offered, by adding mu/2 ||w - w_start||^2 to the local loss.

    Li et al. 2020. The squared norm, as printed there; some published code leaves the square out.
    """
    return replace(with_term(algorithm, Pull(mu)), name="fedprox")


def with_term(algorithm: Algorithm, term: GradientTerm) -> Algorithm:
    """The algorithm whose clients add one more term to their gradient, in every stage of their pass."""

    def more(inner: LocalPass) -> LocalPass:
        then = None if inner.then is None else more(inner.then)
        return replace(inner, terms=(*inner.terms, term), then=then)

    return with_pass(algorithm, "no term can be added to it", more)


def with_pass(algorithm: Algorithm, otherwise: str, change: Callable[[LocalPass], LocalPass]) -> Algorithm:
    """The algorithm whose clients' passes are changed in the same way; `otherwise` says why an opaque pass will not do."""

    def local(client: int, settings: Settings) -> LocalPass:
        inner = algorithm.local(client, settings)
        if not isinstance(inner, LocalPass):
            raise BadInput(f"{algorithm.name} has an opaque local pass, so {otherwise}")
        return change(inner)

    return replace(algorithm, local=local)
