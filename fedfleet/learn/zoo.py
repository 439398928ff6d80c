"""The methods by name."""

from fedfleet.learn.averaging import fedavg
from fedfleet.learn.bounds import kept_home, pooled
from fedfleet.learn.compose import method
from fedfleet.learn.prompts import bias_prompted
from fedfleet.learn.terms import proximal

fedprox = method(proximal, fedavg)
centralized = method(pooled, fedavg)
local_only = method(kept_home, fedavg)
biasprompt = method(bias_prompted, fedavg)

__all__ = ["biasprompt", "centralized", "fedavg", "fedprox", "local_only"]
