"""The methods by name."""

from fedfleet.learn.averaging import fedavg
from fedfleet.learn.bounds import kept_home, pooled
from fedfleet.learn.compose import method
from fedfleet.learn.staleness import damped, mixing, stepping
from fedfleet.learn.surgery import surgery
from fedfleet.learn.terms import proximal

fedprox = method(proximal, fedavg)
centralized = method(pooled, fedavg)
local_only = method(kept_home, fedavg)
stale_fedavg = method(damped, fedavg)
fedbuff = method(stepping, fedavg)
fedasync = method(mixing, fedavg)
fedavg_plus = method(surgery, fedavg)

__all__ = [
    "centralized",
    "fedasync",
    "fedavg",
    "fedavg_plus",
    "fedbuff",
    "fedprox",
    "local_only",
    "stale_fedavg",
]
