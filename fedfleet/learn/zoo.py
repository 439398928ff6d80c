"""The methods by name."""

from fedfleet.learn.baselines import pool_data, share_nothing
from fedfleet.learn.bias_prompt import with_bias_prompt
from fedfleet.learn.composition import method
from fedfleet.learn.drift_correction import with_control_variates, with_dynamic_regularisation
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.fedkd import with_distillation
from fedfleet.learn.fednova import with_normalised_updates
from fedfleet.learn.fetchsgd import with_sketch
from fedfleet.learn.gradient_surgery import surgery
from fedfleet.learn.objectives import proximal
from fedfleet.learn.personalisation import (
    train_body_only,
    train_head_then_body,
    with_fine_tuning,
    with_own_head,
    with_own_model,
    with_own_norms,
)
from fedfleet.learn.server_optimisers import with_adagrad, with_adam, with_momentum, with_yogi
from fedfleet.learn.staleness import with_damping, with_mixing, with_server_step
from fedfleet.learn.submodels import heterofl_widths, ordered_dropout
from fedfleet.learn.timelyfl import partial_layers

fedprox = method(proximal, fedavg)
centralized = method(pool_data, fedavg)
local_only = method(share_nothing, fedavg)
scaffold = method(with_control_variates, fedavg, weigh="one", lr=0.05)
feddyn = method(with_dynamic_regularisation, fedavg, weigh="one", lr=0.05)
fednova = method(with_normalised_updates, fedprox, mu=0.0)
fedavgm = method(with_momentum, fedavg)
fedadagrad = method(with_adagrad, fedavg)
fedadam = method(with_adam, fedavg)
fedyogi = method(with_yogi, fedavg)
fedkd = method(with_distillation, fedavg, lr=0.05)
fetchsgd = method(with_sketch, fedavg)
stale_fedavg = method(with_damping, fedavg)
fedbuff = method(with_server_step, fedavg)
fedasync = method(with_mixing, fedavg)
fedavg_plus = method(surgery, fedavg)
ft = method(with_fine_tuning, fedavg)
fedper = method(with_own_head, fedavg)
fedrep = method(train_head_then_body, fedavg)
fedbabu = method(train_body_only, fedavg)
fedbn = method(with_own_norms, fedavg)
ditto = method(with_own_model, fedavg)
heterofl = method(heterofl_widths, fedavg)
fjord = method(ordered_dropout, fedavg)
timelyfl = method(partial_layers, fedavg)
biasprompt = method(with_bias_prompt, fedavgm)
biasprompt_plus = method(surgery, method(with_bias_prompt, fedavg))
