"""The methods by name."""

from fedfleet.learn.averaging import fedavg
from fedfleet.learn.bounds import kept_home, pooled
from fedfleet.learn.compose import method
from fedfleet.learn.terms import proximal

fedprox = method(proximal, fedavg)
centralized = method(pooled, fedavg)
local_only = method(kept_home, fedavg)

__all__ = ["centralized", "fedavg", "fedprox", "local_only"]
