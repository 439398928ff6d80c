"""The local objective: gradient terms, and a loss of the user's own, as functions from algorithm to algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from fedfleet.core.errors import BadInput, error_context
from fedfleet.core.limits import NonNegative
from fedfleet.core.parts import Algorithm, Job, Loss
from fedfleet.core.passes import NO_SETTINGS, Batch, Carry, GradientTerm, LocalPass, Objective, ProximalTerm, Tensors
from fedfleet.learn.composition import with_pass

Forward = Callable[[Tensors, Any], Any]
Penalty = Callable[[Any, Any], Any]  # (outputs, outputs of the offered model) -> one value for each sample
_OFFERED = "offered/"


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


def with_penalty(algorithm: Algorithm, penalty: Penalty) -> Algorithm:
    """The algorithm whose clients add a penalty on outputs to their loss, in every stage of their pass.

    `penalty(outputs, offered)` gives one value for each sample: `outputs` are those of the model as it is now, `offered` those of
    the model as the client got it, on the same samples and without a gradient. Nothing more goes over the network for it.
    """

    @cache  # one for each that it goes around: passes are compared by value
    def around(inner: Objective | None) -> Objective:
        def objective(forward: Forward, params: Tensors, second: Tensors, carried: Carry, batch: Batch) -> Any:
            outputs = forward(params, batch.x)
            model = {n.removeprefix(_OFFERED): v for n, v in carried.given.items() if n.startswith(_OFFERED)}
            offered = forward(model, batch.x).detach()
            with error_context("your penalty"):
                extra = batch.mean(penalty(outputs, offered))
            if inner is not None:
                return inner(forward, params, second, carried, batch) + extra
            from fedfleet.tasks.scores import sample_losses  # late: it loads torch

            return batch.mean(sample_losses(outputs, batch.y)) + extra

        return objective

    def add_penalty(inner: LocalPass) -> LocalPass:
        then = None if inner.then is None else add_penalty(inner.then)
        return replace(inner, objective=around(inner.objective), then=then)

    def change(inner: LocalPass) -> LocalPass:
        return replace(add_penalty(inner), before=(*inner.before, give_offered_model))

    return with_pass(algorithm, "no penalty can be added to it", change)


def give_offered_model(job: Job) -> Job:
    """The job whose objective sees the offered model beside what is trained: the client has it, and it need not travel again."""
    offered = {_OFFERED + n: v for n, v in job.offer.params.items()}
    return replace(job, offer=replace(job.offer, extra={**job.offer.extra, **offered}))


def with_loss(algorithm: Algorithm, loss: Loss) -> Algorithm:
    """The algorithm whose clients train by this loss, in every stage of their pass and when they tune."""

    def objective(forward: Forward, params: Tensors, _second: Tensors, _carried: Carry, batch: Batch) -> Any:
        outputs = forward(params, batch.x)
        with error_context("your loss function"):
            return batch.apart(loss.compute, outputs) if loss.joint else batch.mean(loss.compute(outputs, batch.y))

    def set_objective(inner: LocalPass) -> LocalPass:
        if inner.objective is not None:
            raise BadInput(
                f"loss: {algorithm.name!r} trains with its own objective, so it cannot use yours; leave `loss` out, "
                "or use another algorithm"
            )
        second = inner.second
        if second is not None and second.own is not None:
            second = replace(second, own=set_objective(second.own))
        return replace(inner, objective=objective, second=second, then=None if inner.then is None else set_objective(inner.then))

    result = with_pass(algorithm, "it cannot take a loss of your own; leave `loss` out", set_objective)
    result.local(0, NO_SETTINGS)  # so that it is refused before anything is written
    tune = algorithm.tune

    def tune_with_loss(client: int) -> LocalPass | None:
        inner = None if tune is None else tune(client)
        return None if inner is None else set_objective(inner)

    return result if tune is None else replace(result, tune=tune_with_loss)
