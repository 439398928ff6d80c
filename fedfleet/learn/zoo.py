"""The methods by name."""

from fedfleet.learn.averaging import fedavg
from fedfleet.learn.bounds import kept_home, pooled
from fedfleet.learn.compose import method
from fedfleet.learn.personal import (
    body_alone,
    fine_tuned,
    head_then_body,
    with_own_head,
    with_own_model,
    with_own_norms,
)
from fedfleet.learn.terms import proximal

fedprox = method(proximal, fedavg)
centralized = method(pooled, fedavg)
local_only = method(kept_home, fedavg)
ft = method(fine_tuned, fedavg)
fedper = method(with_own_head, fedavg)
fedrep = method(head_then_body, fedavg)
fedbabu = method(body_alone, fedavg)
fedbn = method(with_own_norms, fedavg)
ditto = method(with_own_model, fedavg)

__all__ = [
    "centralized",
    "ditto",
    "fedavg",
    "fedbabu",
    "fedbn",
    "fedper",
    "fedprox",
    "fedrep",
    "ft",
    "local_only",
]
