"""Terms of the local objective, as functions from algorithm to algorithm."""

from __future__ import annotations

from dataclasses import replace

from fedfleet.core.limits import NonNegative
from fedfleet.core.parts import Algorithm
from fedfleet.core.passes import GradientTerm, LocalPass, ProximalTerm
from fedfleet.learn.composition import with_pass


def proximal(algorithm: Algorithm, *, mu: NonNegative = 0.01) -> Algorithm:
    """FedProx: keep clients near the model they were offered, by adding mu/2 ||w - w_start||^2 to the local loss.

    Li et al. 2020. The squared norm, as printed there; some published code leaves the square out.
    """
    return replace(with_term(algorithm, ProximalTerm(mu)), name="fedprox")


def with_term(algorithm: Algorithm, term: GradientTerm) -> Algorithm:
    """The algorithm whose clients add one more term to their gradient, in every stage of their pass."""

    def add_term(inner: LocalPass) -> LocalPass:
        then = None if inner.then is None else add_term(inner.then)
        return replace(inner, terms=(*inner.terms, term), then=then)

    return with_pass(algorithm, "no term can be added to it", add_term)
