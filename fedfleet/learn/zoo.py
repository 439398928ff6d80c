"""The methods by name."""

from fedfleet.learn.averaging import fedavg
from fedfleet.learn.bounds import kept_home, pooled
from fedfleet.learn.compose import method
from fedfleet.learn.terms import proximal
from fedfleet.learn.timely import partial_layers
from fedfleet.learn.widths import heterofl_widths, ordered_dropout

fedprox = method(proximal, fedavg)
centralized = method(pooled, fedavg)
local_only = method(kept_home, fedavg)
heterofl = method(heterofl_widths, fedavg)
fjord = method(ordered_dropout, fedavg)
timelyfl = method(partial_layers, fedavg)

__all__ = ["centralized", "fedavg", "fedprox", "fjord", "heterofl", "local_only", "timelyfl"]
