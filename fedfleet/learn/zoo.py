"""The methods by name."""

from fedfleet.learn.averaging import fedavg
from fedfleet.learn.bounds import kept_home, pooled
from fedfleet.learn.compose import method
from fedfleet.learn.distilled import distilled
from fedfleet.learn.drifts import controlled, dynamic
from fedfleet.learn.normalised import normalised
from fedfleet.learn.servers import with_adagrad, with_adam, with_momentum, with_yogi
from fedfleet.learn.sketched import sketched
from fedfleet.learn.staleness import damped, mixing, stepping
from fedfleet.learn.surgery import surgery
from fedfleet.learn.terms import proximal

fedprox = method(proximal, fedavg)
centralized = method(pooled, fedavg)
local_only = method(kept_home, fedavg)
scaffold = method(controlled, fedavg, weigh="one")
feddyn = method(dynamic, fedavg, weigh="one")
fednova = method(normalised, fedprox, mu=0.0)
fedavgm = method(with_momentum, fedavg)
fedadagrad = method(with_adagrad, fedavg)
fedadam = method(with_adam, fedavg)
fedyogi = method(with_yogi, fedavg)
fedkd = method(distilled, fedavg)
fetchsgd = method(sketched, fedavg)
stale_fedavg = method(damped, fedavg)
fedbuff = method(stepping, fedavg)
fedasync = method(mixing, fedavg)
fedavg_plus = method(surgery, fedavg)

__all__ = [
    "centralized",
    "fedadagrad",
    "fedadam",
    "fedasync",
    "fedavg",
    "fedavg_plus",
    "fedavgm",
    "fedbuff",
    "feddyn",
    "fedkd",
    "fednova",
    "fedprox",
    "fedyogi",
    "fetchsgd",
    "local_only",
    "scaffold",
    "stale_fedavg",
]
