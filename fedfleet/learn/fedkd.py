"""Distillation: a shared student learns beside a teacher that never leaves its client, and goes up as matrices of low rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fedfleet.core.aggregation import Aggregate
from fedfleet.core.cost import cost_of
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Share
from fedfleet.core.part_facts import RunFacts
from fedfleet.core.parts import Algorithm
from fedfleet.core.passes import NO_SETTINGS, Batch, Carry, LocalPass, Passed, SecondModel, Tensors
from fedfleet.core.records import Assignments, Cost, Ints, ServerState
from fedfleet.core.trees import Tree
from fedfleet.learn.composition import with_extra, with_pass
from fedfleet.learn.leading_vectors import leading_vectors

_COMMITS = "fedkd/commits"


def with_distillation(algorithm: Algorithm, *, energy_first: Share = 0.95, energy_last: Share = 0.98, facts: RunFacts) -> Algorithm:
    """FedKD: each client trains a teacher of its own and the shared student together, and sends the student's update by SVD.

    Wu et al. 2022. The loss is CE_t + CE_s + (KL(s||t) + KL(t||s)) / (CE_t + CE_s), all of them means over the batch; the teacher
    has the student's architecture and begins as what was first offered. Of each matrix of the update as many singular values
    go up as hold the share e of its energy, the sum of their squares; e grows from round to round, from `energy_first` to
    `energy_last` in the last of those planned. A matrix that would not become smaller goes up as it is, and so do vectors. Bytes
    are known after training only, so a simulation trains first; training two models costs twice the samples. The model goes
    down whole (the paper compresses it there too).

    >>> from fedfleet.learn.fedavg import fedavg
    >>> one = with_distillation(fedavg(), energy_first=0.5, energy_last=0.7, facts=RunFacts(clients=10, seed=0, rounds=2))
    >>> server = one.init({"w": np.zeros((2, 2), np.float32)})
    >>> round(float(one.offer(server, 0, {}).extra["energy"][0]), 3), one.priced_by_value
    (0.6, True)
    """

    def init(params: Tree) -> ServerState:
        server = algorithm.init(params)
        return replace(server, extra={**server.extra, _COMMITS: np.zeros(1, np.int64)})

    def energy(server: ServerState) -> Tree:
        progress = min((float(server.extra[_COMMITS][0]) + 1.0) / facts.rounds, 1.0)
        return {"energy": np.array([energy_first + (energy_last - energy_first) * progress], np.float32)}

    def apply(server: ServerState, aggregate: Aggregate) -> ServerState:
        new_state = algorithm.apply(server, aggregate)
        return replace(new_state, extra={**new_state.extra, _COMMITS: server.extra[_COMMITS] + 1})

    def cost(server: ServerState, assignments: Assignments, samples: Ints) -> Cost:
        plain = cost_of(with_teacher, server, assignments, samples)
        return replace(plain, samples=2.0 * plain.samples)

    with_teacher = with_extra(with_pass(replace(algorithm, init=init), "it can have no teacher", _add_teacher), energy)
    with_teacher.local(0, NO_SETTINGS)  # so that what cannot be taught is refused before anything runs
    return replace(with_teacher, name="fedkd", apply=apply, cost=cost, priced_by_value=True)


def _add_teacher(local: LocalPass) -> LocalPass:
    if local.objective is not None or local.second is not None:
        raise BadInput("fedkd trains with its own objective and a second model; use it around plain training")
    return replace(local, objective=mutual_loss, second=_TEACHER, after=(*local.after, shrink))


_TEACHER = SecondModel(lambda model: model)


def mutual_loss(forward: Callable[[Tensors, Any], Any], params: Tensors, second: Tensors, _carried: Carry, batch: Batch) -> Any:
    """Both models learn from labels and from each other. The denominator is a mean over the batch: some samples' is near zero."""
    student, teacher = forward(params, batch.x), forward(second, batch.x)
    if batch.y.dim() > 1:  # numbers, several labels or sequences
        return _mutual_loss_of_any_kind(student, teacher, batch)
    student, teacher = student.log_softmax(1), teacher.log_softmax(1)
    labels = batch.y.unsqueeze(1)
    label_loss = batch.mean(-(student.gather(1, labels) + teacher.gather(1, labels)).squeeze(1))
    # KL(s||t) + KL(t||s), in one sum
    return label_loss + batch.mean(((student.exp() - teacher.exp()) * (student - teacher)).sum(1)) / label_loss


def _mutual_loss_of_any_kind(student: Any, teacher: Any, batch: Batch) -> Any:
    """The same with the loss of the task's kind. Both divergences together are, for each label or place, the difference of the
    probabilities times that of their logits; of numbers, whose errors are taken as normal, the squared distance."""
    from fedfleet.tasks.scores import sample_losses

    label_loss = batch.mean(sample_losses(student, batch.y) + sample_losses(teacher, batch.y))
    if batch.y.is_floating_point():
        distance = (student - teacher).square()
    elif str(batch.y.dtype) == "torch.bool":
        distance = (student.sigmoid() - teacher.sigmoid()) * (student - teacher)
    else:
        student, teacher = student.log_softmax(-1), teacher.log_softmax(-1)
        distance = ((student.exp() - teacher.exp()) * (student - teacher)).sum(-1)
    return label_loss + batch.mean(distance.reshape(len(batch.y), -1).mean(1)) / label_loss


def shrink(passed: Passed) -> Passed:
    """Every matrix of the update at the rank that holds the offered share of its energy, and what its factors take."""
    energy = passed.given["energy"]
    update, nbytes = dict[str, Any](), np.zeros(len(passed.weight))
    for name, leaf in passed.update.items():
        is_matrix = leaf.is_floating_point() and leaf.dim() > 2 and leaf[0].numel() > 0
        update[name], numbers = low_rank(leaf, energy) if is_matrix else (leaf, leaf[0].numel())
        nbytes += numbers * leaf.element_size()
    return replace(passed, update=update, bytes_up=nbytes)


def low_rank(stack: Any, energy: Any) -> tuple[Any, Any]:
    """A stack of matrices, each as the nearest one whose rank holds `energy`; and how many numbers its factors have.

    Of convolutions the first axis is the rows. Singular values come from the smaller of the two Gram matrices, which takes a
    fraction of the time that singular vectors of both sides would.
    """
    import torch

    tall = stack.flatten(2)
    rows, width = tall.shape[1:]
    short = tall if rows <= width else tall.transpose(1, 2)
    gram = short @ short.transpose(1, 2)
    finite = gram.isfinite().all(2).all(1)  # a client that diverged is refused when its report is folded; the others go on
    gram = torch.where(finite.reshape(-1, 1, 1), gram, torch.zeros_like(gram))
    vectors, rank = leading_vectors(gram, energy.expand(len(gram), 1))
    numbers = rank * (rows + width)
    columns = vectors.shape[2]
    mask = torch.arange(columns, device=stack.device) >= columns - rank.unsqueeze(1)
    basis = vectors * mask.unsqueeze(1)
    approximation = basis @ (basis.transpose(1, 2) @ short)
    approximation = (approximation if rows <= width else approximation.transpose(1, 2)).reshape(stack.shape)
    whole = ((numbers >= rows * width) | ~finite).reshape(-1, *(1,) * (stack.dim() - 1))
    return torch.where(whole, stack, approximation), numbers.clamp(max=rows * width).cpu().numpy()
