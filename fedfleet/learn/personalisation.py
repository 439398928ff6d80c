"""Personalisation: models that fit their clients, as functions from algorithm to algorithm.

Which layer is the head a method asks of the model (`model`): the last one with parameters that its forward() calls, unless `head`
says otherwise. An algorithm that is built without a model takes the names that FedFleet's own models have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from fedfleet.core.bounds import Ge, Le
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Epochs, NonNegative, Positive
from fedfleet.core.part_facts import ModelOf, default_model_facts
from fedfleet.core.parts import Algorithm
from fedfleet.core.passes import KEPT, NO_SETTINGS, SECOND, BatchPlan, LocalPass, Passed, ProximalTerm, SecondModel
from fedfleet.core.trees import Tree
from fedfleet.learn.composition import with_pass
from fedfleet.learn.local_parameters import Leaves, keep_leaves_local

HeadEpochs = Annotated[int, Ge(0), Le(10_000)]


def with_fine_tuning(algorithm: Algorithm, *, tune_epochs: Epochs = 5, tune_lr: Positive | None = None) -> Algorithm:
    """FT: before it is evaluated, each client trains the model that it would use on its own training data, once more.

    Chen et al. 2023 (FS-REAL): 5 epochs. All leaves, with the optimiser and the batches of the federation and its learning rate
    unless `tune_lr` is given; w_k = w - lr sum of grad F_k. What is tuned is evaluated and forgotten: the server never sees it.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> with_fine_tuning(fedavg(lr=0.2, batch=8)).tune(0).batches
    BatchPlan(size=8, epochs=5, steps=None)
    """
    if algorithm.pooled:
        raise BadInput(f"{algorithm.name!r} trains in one place, so no client can fine-tune; leave fine-tuning out")
    if algorithm.tune is not None:
        raise BadInput(
            f"{algorithm.name!r} tunes before evaluation already; set algorithm.tune_epochs instead of algorithm.fine_tune"
        )

    def tune(client: int) -> LocalPass:
        local = algorithm.local(client, NO_SETTINGS)
        if not isinstance(local, LocalPass):
            raise BadInput(f"{algorithm.name} trains its clients with a function of its own, so it cannot be fine-tuned")
        batches = BatchPlan(local.batches.size, tune_epochs)
        return LocalPass(local.optimiser, batches, rate=local.rate if tune_lr is None else tune_lr)

    tune(0)  # so that it is refused before anything is written
    return replace(algorithm, name="ft", tune=tune)


def with_own_head(algorithm: Algorithm, *, head: str | None = None, model: ModelOf = default_model_facts) -> Algorithm:
    """FedPer: the head stays home; body and own head are trained together, and only the body is shared.

    Arivazhagan et al. 2019: w_b <- mean of w_b,k after SGD on F_k(w_b, h_k). Read accuracy_clients: the server's
    head stays untrained.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> [with_own_head(fedavg()).local(0, {}).keep(name) for name in ("body.bias", "head.bias")]
    [False, True]
    """
    return replace(_with_local_head(algorithm, _head_leaves(head, model)), name="fedper")


def train_head_then_body(
    algorithm: Algorithm, *, head_epochs: HeadEpochs = 10, head: str | None = None, model: ModelOf = default_model_facts
) -> Algorithm:
    """FedRep: first the own head with the body frozen, then the body with the head frozen; only the body is shared.

    Collins et al. 2021, with 10 epochs on the head, then those (or the steps) of the algorithm on the body:
    h_k <- argmin_h F_k(w_b, h), then w_b <- w_b - lr grad_b F_k(w_b, h_k). Read accuracy_clients: the server's head
    stays untrained.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> found = train_head_then_body(fedavg(epochs=1)).local(0, {})
    >>> [(stage.batches.epochs, stage.train("head.bias")) for stage in found.stages()]
    [(10, True), (1, False)]
    """
    head_leaves = _head_leaves(head, model)

    def add_stages(inner: LocalPass) -> LocalPass:
        body = replace(inner, train=replace(head_leaves, others=True, within=inner.train))
        if not head_epochs:  # no stage that does nothing: orders of batches are numbered by stage
            return body
        head_batches = BatchPlan(inner.batches.size, head_epochs)
        return replace(inner, train=replace(head_leaves, within=inner.train), batches=head_batches, then=body)

    result = with_pass(_with_local_head(algorithm, head_leaves), "it cannot be trained in two stages", add_stages)
    return replace(result, name="fedrep")


def train_body_only(
    algorithm: Algorithm,
    *,
    tune_epochs: Epochs = 5,
    tune_lr: Positive | None = None,
    head: str | None = None,
    model: ModelOf = default_model_facts,
) -> Algorithm:
    """FedBABU: the head stays as it began, for everyone; clients train the body, and tune the whole model to be evaluated.

    Oh et al. 2022, with 5 epochs of tuning: w_b <- mean of w_b,k after SGD on F_k(w_b, h_0). Everyone makes h_0 from the seed,
    so that it never travels.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> found = train_body_only(fedavg())
    >>> found.local(0, {}).train("head.bias"), found.tune(0).train
    (False, None)
    """
    head_leaves = _head_leaves(head, model)

    def freeze_head(inner: LocalPass) -> LocalPass:
        body, shared = replace(head_leaves, others=True, within=inner.train), _SharedLeafFilter(head_leaves)
        return replace(inner, train=body, after=(*inner.after, shared))

    result = with_pass(_with_local_head(algorithm, head_leaves), "its head cannot be frozen", freeze_head)
    tuned = with_fine_tuning(result, tune_epochs=tune_epochs, tune_lr=tune_lr)
    return replace(tuned, name="fedbabu", personal=algorithm.personal)


def with_own_norms(algorithm: Algorithm, *, model: ModelOf = default_model_facts) -> Algorithm:
    """FedBN: layers that normalise stay home, with their statistics; everything else is shared.

    Li et al. 2021. Read accuracy_clients: the server's normalisation stays as it was at the start.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> [with_own_norms(fedavg()).local(0, {}).keep(name) for name in ("conv.bias", "norm1.bias")]
    [False, True]
    """
    no_match = (
        "fedbn: this model has no layer that normalises, such as BatchNorm; use fedavg, or a model that has, such as resnet18_gn"
    )
    return replace(keep_leaves_local(algorithm, Leaves(model().norms), "fedbn", no_match), name="fedbn")


def with_own_model(algorithm: Algorithm, *, lam: NonNegative = 0.1) -> Algorithm:
    """Ditto: beside the shared model, trained as ever, each client trains one of its own, near the one it was offered.

    Li et al. 2021: v_k <- v_k - lr (grad F_k(v_k) + lam (v_k - w)), with the batches of the algorithm; v_k begins as the first w
    that the client is offered. A client is evaluated by v_k, or by w if it never took part.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> with_own_model(fedavg()).local(0, {}).second.own.terms
    (ProximalTerm(mu=0.1),)
    """

    def add_own_model(inner: LocalPass) -> LocalPass:
        if inner.second is not None:
            raise BadInput(f"{algorithm.name!r} already has a second model, so Ditto cannot add another; use ditto alone")
        own_pass = LocalPass(
            inner.optimiser,
            inner.batches,
            inner.rate,
            (ProximalTerm(lam),),
            inner.objective,
            inner.train,
            weigh=inner.weigh,
            max_samples=inner.max_samples,
        )
        return replace(inner, second=SecondModel(_same_model, own_pass))

    result = with_pass(algorithm, "it cannot have a second model", add_own_model)
    return replace(result, name="ditto", personal=lambda params, memory: {**params, **memory.get(SECOND, {})})


@dataclass(frozen=True, slots=True)
class _SharedLeafFilter:
    """After a pass: what everyone has alike need not be remembered."""

    home: Leaves

    def __call__(self, passed: Passed) -> Passed:
        kept = {n: v for n, v in passed.memory.get(KEPT, {}).items() if not self.home(n)}
        others = {slot: tree for slot, tree in passed.memory.items() if slot != KEPT}
        return replace(passed, memory={**others, KEPT: kept} if kept else others)


def _head_leaves(pattern: str | None, model: ModelOf) -> Leaves:
    return Leaves((pattern if pattern is not None else model().head,))


def _with_local_head(algorithm: Algorithm, home: Leaves) -> Algorithm:
    no_match = f"algorithm.head = {home.patterns[0]!r} matches no leaf of this model"
    return keep_leaves_local(algorithm, home, "algorithm.head", no_match)


def _same_model(model: Tree) -> Tree:
    return model
