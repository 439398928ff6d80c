"""The methods by name."""

from fedfleet.learn.averaging import fedavg
from fedfleet.learn.bounds import kept_home, pooled
from fedfleet.learn.compose import method
from fedfleet.learn.distilled import distilled
from fedfleet.learn.drifts import controlled, dynamic
from fedfleet.learn.normalised import normalised
from fedfleet.learn.servers import with_adagrad, with_adam, with_momentum, with_yogi
from fedfleet.learn.sketched import sketched
from fedfleet.learn.terms import proximal

fedprox = method(proximal, fedavg)
centralized = method(pooled, fedavg)
local_only = method(kept_home, fedavg)
scaffold = method(controlled, fedavg, weigh="one", lr=0.05)
feddyn = method(dynamic, fedavg, weigh="one")
fednova = method(normalised, fedprox, mu=0.0)
fedavgm = method(with_momentum, fedavg)
fedadagrad = method(with_adagrad, fedavg)
fedadam = method(with_adam, fedavg)
fedyogi = method(with_yogi, fedavg)
fedkd = method(distilled, fedavg)
fetchsgd = method(sketched, fedavg)

__all__ = [
    "centralized",
    "fedadagrad",
    "fedadam",
    "fedavg",
    "fedavgm",
    "feddyn",
    "fedkd",
    "fednova",
    "fedprox",
    "fedyogi",
    "fetchsgd",
    "local_only",
    "scaffold",
]
