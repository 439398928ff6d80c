"""Draws of forward() itself: the same for the same step of the same client, and none of them is left in the generator."""

import numpy as np
import pytest
import torch
from torch import nn

import fedfleet
from fedfleet.tasks.own_model import trainable_build
from fedfleet.tasks.seeded_draws import SeededDraws, draws_in_training, seed_draws, unseed_draws

X = np.random.default_rng(0).normal(size=(80, 6)).astype(np.float32)
DATA = (X, (X.sum(1) > 0).astype(int))
SPEC = {"seed": 3, "world": {"clients": 4}, "pace": {"cohort": 4}, "stop": {"rounds": 3}}


class Dropping(nn.Module):
    """Dropout as a function, which attention layers call."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(6, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.outer(nn.functional.dropout(self.inner(x), 0.5, self.training))


class Failing(Dropping):
    """Fails after it has drawn."""

    def forward(self, x):
        super().forward(x)
        raise ValueError("no")


def at(module, address):
    next(m for m in module.modules() if isinstance(m, SeededDraws)).address = torch.tensor([address])
    return module(torch.from_numpy(X))


def test_what_draws_is_found_and_nothing_remains_of_the_trial():
    model, plain = Dropping().eval(), nn.Linear(6, 2)
    state = torch.get_rng_state()
    assert draws_in_training(model, X[:2]) and not draws_in_training(plain, X[:2])
    assert torch.equal(torch.get_rng_state(), state) and not model.training
    with torch.device("meta"):
        assert draws_in_training(Dropping(), X[:2]) is None
    assert not draws_in_training(nn.Linear(3, 2), X[:2]), "what cannot be tried is said elsewhere"


def test_draws_follow_the_address_and_leave_the_generator_as_it_was():
    module, failing = seed_draws(Dropping()), seed_draws(Failing())
    names, state = sorted(module.state_dict()), torch.get_rng_state()
    first, again, other = (at(module, address) for address in (5, 5, 6))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state) and names == ["inner.bias", "inner.weight", "outer.bias", "outer.weight"]
    with pytest.raises(ValueError, match="no"):
        at(failing, 5)
    assert torch.equal(torch.get_rng_state(), state), "after a failure too"
    free = unseed_draws(module)
    assert not torch.equal(free(torch.from_numpy(X)), free(torch.from_numpy(X)))


def test_only_models_that_draw_are_seeded():
    assert any(isinstance(m, SeededDraws) for m in trainable_build(Dropping, X)().modules())
    assert not any(isinstance(m, SeededDraws) for m in trainable_build(lambda: nn.Linear(6, 2), X)().modules())


@pytest.mark.parametrize("execute", ["inline", "stacked"])
def test_a_run_is_repeatable_and_replays(execute, tmp_path):
    spec = {**SPEC, "run": {"execute": execute}}
    done = fedfleet.run(spec, model=Dropping, data=DATA, out=tmp_path / "run")
    torch.manual_seed(77)
    assert fedfleet.run(spec, model=Dropping, data=DATA).metrics["digest"] == done.metrics["digest"]
    assert "models" in fedfleet.replay(tmp_path / "run", model=Dropping)["verified"]
    assert not any(isinstance(m, SeededDraws) for m in done.module().modules())
    assert not any("generator" in warning for warning in done.metrics["warnings"])


def test_inline_and_stacked_drop_the_same():
    inline, stacked = (
        fedfleet.run({**SPEC, "run": {"execute": execute}}, model=Dropping, data=DATA).params for execute in ("inline", "stacked")
    )
    assert all(np.allclose(inline[n], stacked[n], atol=1e-5) for n in inline)
