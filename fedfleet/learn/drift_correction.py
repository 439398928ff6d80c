"""Against client drift: what a client's own data pull it to is taken out of its steps, by a memory on both sides.

Unlike data make clients walk apart within a round. SCAFFOLD estimates each client's gradient and the mean of all, and steps along
the difference; FedDyn tilts each client's objective so that all of them have the same minimum.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, Literal

import numpy as np

from fedfleet.core.aggregation import Aggregate
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Positive, Share
from fedfleet.core.part_facts import RunFacts
from fedfleet.core.parts import Algorithm
from fedfleet.core.passes import NO_SETTINGS, After, Carry, ConstantTerm, LocalPass, Passed, ProximalTerm, Slot, Tensors
from fedfleet.core.records import ServerState
from fedfleet.core.trees import Tree
from fedfleet.learn.composition import split_aggregate, with_extra, with_pass
from fedfleet.learn.leaves import column
from fedfleet.learn.objectives import with_term
from fedfleet.learn.server_optimisers import with_rule

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
_PREFIX = "control/"
_INTACT_REASON = "remembers the same updates at the server and at the clients"


def weights_of(model: Tree) -> Tree:
    """The leaves that gradients move: no counters, and no running statistics of normalising layers."""
    return {n: v for n, v in model.items() if np.issubdtype(v.dtype, np.floating) and n.rpartition(".")[2] not in _STATISTICS}


def zero_weights(model: Tree) -> Tree:
    """Zeros, one for each weight of the model."""
    return {n: np.zeros_like(v) for n, v in weights_of(model).items()}


# ---- SCAFFOLD ---------------------------------------------------------------------------------------------------


def with_control_variates(algorithm: Algorithm, *, strength: Share = 0.25, server_lr: Positive = 1.0, facts: RunFacts) -> Algorithm:
    """SCAFFOLD: clients step along g - c_k + c, where c_k remembers their own mean gradient and c the mean of all.

    Karimireddy et al. 2020, option II: after K steps of rate r, c_k <- c_k - c + (w_start - w_end) / (K r). The server adds
    server_lr times the mean update to the model, and the sum of all changes of c_k, over the number of clients in the fleet,
    to c, so that c stays the mean of all c_k. Both links carry twice the model. Reports count alike, as in the paper; with
    weigh = "samples" those of the model do not, and c does not change. The paper's `strength` is 1: clients step along
    g + strength (c - c_k). With a fifth of the fleet a round corrections are several rounds old, and whole ones drove chars74k_cnn
    at rates of 0.05 and 0.1, and wisdm_cnn at 0.1, to chance (benchmarks/RESULTS.md); hence a quarter of them, beside half of
    FedAvg's `lr`. It needs plain SGD: after steps with momentum or Adam the way walked says nothing about the mean gradient.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> one = with_control_variates(fedavg(), facts=RunFacts(clients=10, seed=0, rounds=5))
    >>> server = one.init({"w": np.zeros(2, np.float32)})
    >>> sorted(one.fold.like(server)), sorted(one.offer(server, 0, {}).extra)
    (['control/w', 'w'], ['control/w'])
    """

    def init(params: Tree) -> ServerState:
        server = algorithm.init(params)
        zeros = {_PREFIX + n: v for n, v in zero_weights(params).items()}
        return replace(server, extra={**server.extra, **zeros})

    def like(server: ServerState) -> Tree:
        return {**algorithm.fold.like(server), **_controls(server)}

    def apply(server: ServerState, aggregate: Aggregate) -> ServerState:
        model, change = split_aggregate(aggregate, _PREFIX)
        new_state = with_server_lr.apply(server, model)
        share = aggregate.weight / facts.clients  # reports carry their change over their weight, so that this is the sum
        control = {_PREFIX + n: server.extra[_PREFIX + n] + share * v for n, v in change.items()}
        return replace(new_state, extra={**new_state.extra, **control})

    def add_controls(local: LocalPass) -> LocalPass:
        linear = local.optimiser.linear
        if linear is None or linear.momentum or local.then is not None:
            raise BadInput(
                f"scaffold needs plain steps around {algorithm.name}, because only then the distance trained is the mean gradient; "
                'set optimiser = "sgd" and momentum = 0'
            )
        return replace(local, slots=(*local.slots, _CONTROL), after=(*local.after, _move_controls(strength)))

    with_server_lr = with_rule(algorithm, lambda server, mean: ({}, {n: server_lr * v for n, v in mean.items()}))
    corrected = with_pass(with_term(algorithm, _control_term(strength)), "it can have no control variates", add_controls)
    result = replace(
        with_extra(corrected, _controls),
        name="scaffold",
        init=init,
        fold=replace(algorithm.fold, like=like, intact=_INTACT_REASON),
        apply=apply,
    )
    result.local(0, NO_SETTINGS)  # so that what cannot be corrected is refused before anything runs
    return result


def _controls(server: ServerState) -> Tree:
    return {n: v for n, v in server.extra.items() if n.startswith(_PREFIX)}


@cache  # once for each strength: passes are compared by value
def _control_term(strength: float) -> ConstantTerm:
    def term(_start: Tensors, carried: Carry) -> Tensors:
        return {n: strength * (carried.given[_PREFIX + n] - own) for n, own in carried.memory["control"].items()}

    return ConstantTerm(term)


@cache
def _move_controls(strength: float) -> After:
    """c_k <- -update / (K r) - strength (c - c_k); what goes up is the change over the weight that the fold multiplies by."""

    def move(passed: Passed) -> Passed:
        update, control = dict(passed.update), dict[str, Any]()
        for name, own in passed.memory["control"].items():
            server_control = passed.given[_PREFIX + name]
            if name not in passed.update:  # it stays at home, and is not corrected
                control[name], update[_PREFIX + name] = own, own * 0.0
                continue
            step, inverse = passed.update[name], column(1.0 / (passed.rates * passed.steps), own)
            if isinstance(own, np.ndarray):
                negative_change = own + np.float32(strength) * (server_control - own) + step * inverse
            else:  # few passes over memory: the change with its sign turned round is made once
                negative_change = own.lerp(server_control, strength).addcmul_(step, inverse)
            control[name] = own - negative_change
            update[_PREFIX + name] = negative_change * column(-1.0 / passed.weight, own)
        return replace(passed, update=update, memory={**passed.memory, "control": control})

    return move


_CONTROL = Slot("control", zero_weights)

# ---- FedDyn -----------------------------------------------------------------------------------------------------


def with_dynamic_regularisation(
    algorithm: Algorithm, *, alpha: Positive = 0.3, semantics: Literal["paper", "released"] = "paper", facts: RunFacts
) -> Algorithm:
    """FedDyn: clients add alpha <w, h_k> + alpha/2 ||w - w_start||^2 to their loss, where h_k is how far they drifted so far.

    Acar et al. 2021. After a pass h_k <- h_k + (w_end - w_start), so that -alpha h_k comes to be the client's gradient; the
    server's model is the mean of the clients' plus H, the mean of h_k over the whole fleet. Where no client moves any more, the
    gradients sum to zero: unlike FedAvg's, the fixed point is the optimum. Reports count alike, as in the paper; with weigh =
    "samples" and few clients a round, H is that weighted mean only on average. `semantics = "released"` takes the mean of h_k over
    those who reported, as FLHetBench's code does. The paper's alpha is 0.01; there two of three runs of wisdm_cnn ended at chance,
    hence 0.3, beside half of FedAvg's `lr`: at 0.1 one of three runs of chars74k_cnn was lost.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> one = with_dynamic_regularisation(fedavg(), alpha=0.5, facts=RunFacts(clients=4, seed=0, rounds=5))
    >>> server = one.init({"w": np.zeros(1, np.float32)})
    >>> after = one.apply(server, Aggregate({"w": np.ones(1, np.float32)}, 2.0, 2))
    >>> after.params["w"].tolist(), after.extra["drift/w"].tolist()  # two of four drifted by 1
    ([1.5], [0.5])
    """

    def tilt(_start: Tensors, carried: Carry) -> Tensors:
        return {n: alpha * v for n, v in carried.memory["drift"].items()}

    def apply(server: ServerState, aggregate: Aggregate) -> ServerState:
        def fleet_mean(state: ServerState, mean: Tree) -> tuple[Tree, Tree]:
            share = aggregate.count / facts.clients
            drift = {n: state.extra.get(f"drift/{n}", 0.0) + share * d for n, d in weights_of(mean).items()}
            return {f"drift/{n}": v for n, v in drift.items()}, {n: d + drift[n] if n in drift else d for n, d in mean.items()}

        return with_rule(algorithm, fleet_mean).apply(server, aggregate)

    hook = _add_drift if semantics == "paper" else _add_and_send_drift
    with_terms = with_pass(
        with_term(with_term(algorithm, ProximalTerm(alpha)), ConstantTerm(tilt)),
        "it cannot remember its drift",
        lambda p: replace(p, slots=(*p.slots, _DRIFT), after=(*p.after, hook)),
    )
    if semantics == "released":
        return replace(with_terms, name="feddyn")
    return replace(with_terms, name="feddyn", fold=replace(algorithm.fold, intact=_INTACT_REASON), apply=apply)


def _add_drift(passed: Passed) -> Passed:
    drift = {n: h + passed.update[n] if n in passed.update else h for n, h in passed.memory["drift"].items()}
    return replace(passed, memory={**passed.memory, "drift": drift})


def _add_and_send_drift(passed: Passed) -> Passed:
    """The mean of (w_k + h_k) over those who report is the mean of w_k plus that of h_k."""
    drifted = _add_drift(passed)
    drift = drifted.memory["drift"]
    return replace(drifted, update={n: v + drift[n] if n in drift else v for n, v in passed.update.items()})


_DRIFT = Slot("drift", zero_weights)
