"""Terms of the local objective, as functions from algorithm to algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import NonNegative
from fedfleet.core.parts import Algorithm, GradientTerm, LocalPass


def proximal(algorithm: Algorithm, *, mu: NonNegative = 0.01) -> Algorithm:
    """FedProx: keep clients near the model they were offered, by adding mu/2 ||w - w_start||^2 to the local loss.

    Li et al. 2020. The squared norm, as printed there; some published code leaves the square out.
    """

    def pull(params: Mapping[str, Any], start: Mapping[str, Any], memory: Mapping[str, Any]) -> Mapping[str, Any]:
        del memory
        return {n: mu * (p - start[n]) for n, p in params.items()}

    return replace(with_term(algorithm, pull), name="fedprox")


def with_term(algorithm: Algorithm, term: GradientTerm) -> Algorithm:
    """The algorithm whose clients add one more term to their gradient."""

    def local(client: int) -> LocalPass:
        inner = algorithm.local(client)
        if not isinstance(inner, LocalPass):
            raise BadInput(f"{algorithm.name} has an opaque local pass, so no term can be added to it")
        return replace(inner, terms=(*inner.terms, term))

    return replace(algorithm, local=local)
