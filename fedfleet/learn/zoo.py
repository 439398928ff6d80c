"""The methods by name."""

from fedfleet.learn.baselines import kept_home, pooled
from fedfleet.learn.bias_prompt import bias_prompted
from fedfleet.learn.composition import method
from fedfleet.learn.drift_correction import controlled, dynamic
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.fedkd import distilled
from fedfleet.learn.fednova import normalised
from fedfleet.learn.fetchsgd import sketched
from fedfleet.learn.gradient_surgery import surgery
from fedfleet.learn.model_widths import heterofl_widths, ordered_dropout
from fedfleet.learn.objective_terms import proximal
from fedfleet.learn.personalisation import (
    body_alone,
    fine_tuned,
    head_then_body,
    with_own_head,
    with_own_model,
    with_own_norms,
)
from fedfleet.learn.server_optimisers import with_adagrad, with_adam, with_momentum, with_yogi
from fedfleet.learn.staleness import damped, mixing, stepping
from fedfleet.learn.timelyfl import partial_layers

fedprox = method(proximal, fedavg)
centralized = method(pooled, fedavg)
local_only = method(kept_home, fedavg)
scaffold = method(controlled, fedavg, weigh="one", lr=0.05)
feddyn = method(dynamic, fedavg, weigh="one", lr=0.05)
fednova = method(normalised, fedprox, mu=0.0)
fedavgm = method(with_momentum, fedavg)
fedadagrad = method(with_adagrad, fedavg)
fedadam = method(with_adam, fedavg)
fedyogi = method(with_yogi, fedavg)
fedkd = method(distilled, fedavg, lr=0.05)
fetchsgd = method(sketched, fedavg)
stale_fedavg = method(damped, fedavg)
fedbuff = method(stepping, fedavg)
fedasync = method(mixing, fedavg)
fedavg_plus = method(surgery, fedavg)
ft = method(fine_tuned, fedavg)
fedper = method(with_own_head, fedavg)
fedrep = method(head_then_body, fedavg)
fedbabu = method(body_alone, fedavg)
fedbn = method(with_own_norms, fedavg)
ditto = method(with_own_model, fedavg)
heterofl = method(heterofl_widths, fedavg)
fjord = method(ordered_dropout, fedavg)
timelyfl = method(partial_layers, fedavg)
biasprompt = method(bias_prompted, fedavgm)
biasprompt_plus = method(surgery, method(bias_prompted, fedavg))

__all__ = [
    "biasprompt",
    "biasprompt_plus",
    "centralized",
    "ditto",
    "fedadagrad",
    "fedadam",
    "fedasync",
    "fedavg",
    "fedavg_plus",
    "fedavgm",
    "fedbabu",
    "fedbn",
    "fedbuff",
    "feddyn",
    "fedkd",
    "fednova",
    "fedper",
    "fedprox",
    "fedrep",
    "fedyogi",
    "fetchsgd",
    "fjord",
    "ft",
    "heterofl",
    "local_only",
    "scaffold",
    "stale_fedavg",
    "timelyfl",
]
