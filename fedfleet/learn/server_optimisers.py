"""Server rules: what is done with the mean update before it is added to the model.

Each wraps the `apply` of any algorithm and hands it another mean. What a rule remembers lies in the server's state beside the
model, in leaves that begin with the rule's own word; it comes into being with the first commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedfleet.core.aggregation import Aggregate
from fedfleet.core.errors import RunFailed
from fedfleet.core.limits import Fraction, Positive
from fedfleet.core.parts import Algorithm
from fedfleet.core.records import ServerState
from fedfleet.core.trees import Array, Tree


def with_momentum(algorithm: Algorithm, *, server_momentum: Fraction = 0.9, server_lr: Positive = 0.3) -> Algorithm:
    """FedAvgM: the server goes on in the direction of earlier rounds, v <- server_momentum v + mean; w <- w + server_lr v.

    Hsu et al. 2019. With `server_momentum = 0` and `server_lr = 1` it is FedAvg. In the long run a mean counts for server_lr /
    (1 - server_momentum); with 1 / (1 - 0.9), ten times FedAvg's step, one of three runs of wisdm_cnn ended at chance, hence 0.3.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> rule = with_momentum(fedavg(), server_momentum=0.5, server_lr=1.0)
    >>> server = ServerState({"w": np.zeros(1, np.float32)})
    >>> for _ in range(2):
    ...     server = rule.apply(server, Aggregate({"w": np.ones(1, np.float32)}, 1.0, 1))
    >>> server.params["w"].tolist(), server.extra["velocity/w"].tolist()
    ([2.5], [1.5])
    """

    def velocity(server: ServerState, change: Tree) -> tuple[Tree, Tree]:
        v = {f"velocity/{n}": server_momentum * server.extra.get(f"velocity/{n}", 0.0) + d for n, d in change.items()}
        return v, {n: server_lr * v[f"velocity/{n}"] for n in change}

    return replace(with_rule(algorithm, velocity), name="fedavgm")


def with_adagrad(algorithm: Algorithm, *, server_lr: Positive = 0.03, beta1: Fraction = 0.0, tau: Positive = 1e-3) -> Algorithm:
    """FedAdagrad: the server scales each coordinate by all that it has seen, w <- w + server_lr m / (sqrt(v) + tau).

    Reddi et al. 2021. d is the mean update, m <- beta1 m + (1 - beta1) d; v <- v + d^2, from tau^2 on. `tau` is how small an update
    may be before it is no longer enlarged.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> rule = with_adagrad(fedavg(), server_lr=1.0, tau=1.0)
    >>> update = Aggregate({"w": np.full(1, 3 ** 0.5, np.float32)}, 1.0, 1)
    >>> after = rule.apply(ServerState({"w": np.zeros(1, np.float32)}), update)
    >>> round(float(after.params["w"][0]), 4), round(float(after.extra["second/w"][0]), 4)
    (0.5774, 4.0)
    """
    return replace(_adaptive(algorithm, server_lr, beta1, tau, lambda v, square: v + square), name="fedadagrad")


def with_adam(
    algorithm: Algorithm, *, server_lr: Positive = 0.01, beta1: Fraction = 0.9, beta2: Fraction = 0.99, tau: Positive = 1e-3
) -> Algorithm:
    """FedAdam: the server scales each coordinate by its recent size, v <- beta2 v + (1 - beta2) d^2; then as FedAdagrad.

    Reddi et al. 2021, without bias correction, as there.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> rule = with_adam(fedavg(), server_lr=1.0, beta1=0.0, beta2=0.5, tau=1.0)
    >>> after = rule.apply(ServerState({"w": np.zeros(1, np.float32)}), Aggregate({"w": np.ones(1, np.float32)}, 1.0, 1))
    >>> after.params["w"].tolist(), after.extra["second/w"].tolist()
    ([0.5], [1.0])
    """
    result = _adaptive(algorithm, server_lr, beta1, tau, lambda v, square: beta2 * v + (1 - beta2) * square)
    return replace(result, name="fedadam")


def with_yogi(
    algorithm: Algorithm, *, server_lr: Positive = 0.01, beta1: Fraction = 0.9, beta2: Fraction = 0.99, tau: Positive = 1e-3
) -> Algorithm:
    """FedYogi: as FedAdam, but what is remembered of sizes moves by steps, v <- v - (1 - beta2) d^2 sign(v - d^2).

    Reddi et al. 2021. After a long quiet v shrinks more slowly than Adam's.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> rule = with_yogi(fedavg(), beta2=0.5, tau=1.0)
    >>> after = rule.apply(ServerState({"w": np.zeros(1, np.float32)}), Aggregate({"w": np.full(1, 2, np.float32)}, 1.0, 1))
    >>> after.extra["second/w"].tolist()
    [3.0]
    """

    def second(v: Array | float, square: Array) -> Array:
        return v - (1 - beta2) * square * np.sign(v - square)

    return replace(_adaptive(algorithm, server_lr, beta1, tau, second), name="fedyogi")


def _adaptive(
    algorithm: Algorithm, rate: float, beta1: float, tau: float, second: Callable[[Array | float, Array], Array]
) -> Algorithm:
    """m <- beta1 m + (1 - beta1) d; v <- second(v, d^2), from tau^2 on; the step is rate m / (sqrt(v) + tau)."""

    def steps(server: ServerState, change: Tree) -> tuple[Tree, Tree]:
        memory: Tree = {}
        step: Tree = {}
        for n, d in change.items():
            m = beta1 * server.extra.get(f"first/{n}", 0.0) + (1 - beta1) * d
            v = second(server.extra.get(f"second/{n}", tau * tau), d * d)
            memory |= {f"first/{n}": m, f"second/{n}": v}
            step[n] = rate * m / (np.sqrt(v) + tau)
        return memory, step

    return with_rule(algorithm, steps)


def with_rule(algorithm: Algorithm, rule: Callable[[ServerState, Tree], tuple[Tree, Tree]]) -> Algorithm:
    """The algorithm that adds what a rule makes of the mean update: `rule(server, mean)` gives what to remember, and the step.

    What it remembers are arrays by names that begin with a word of its own, such as "velocity/"; it finds them in `server.extra`
    the next time, and nothing there at the first. The step has the names and shapes of the mean.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> half = with_rule(fedavg(), lambda server, mean: ({}, {name: 0.5 * value for name, value in mean.items()}))
    >>> after = half.apply(ServerState({"w": np.zeros(2, np.float32)}), Aggregate({"w": np.ones(2, np.float32)}, 1.0, 1))
    >>> after.params["w"].tolist()
    [0.5, 0.5]
    """

    def apply(server: ServerState, aggregate: Aggregate) -> ServerState:
        memory, step = rule(server, aggregate.mean)
        for name, value in step.items():  # what broadcasts would be added without a word
            if name not in aggregate.mean or np.shape(value) != aggregate.mean[name].shape:
                expected = f"the shape {aggregate.mean[name].shape}" if name in aggregate.mean else "no such name"
                raise RunFailed(
                    f"the server's rule gives a step of shape {np.shape(value)} for {name!r}, and the mean update has {expected}; "
                    "give one number for each element of the mean"
                )
        new_state = algorithm.apply(server, replace(aggregate, mean=step))
        return replace(new_state, extra={**new_state.extra, **memory})

    return replace(algorithm, apply=apply)
