"""What a model answers, and losses that are tried first."""

import numpy as np
import pytest
import torch

from fedfleet.core.errors import BadInput
from fedfleet.tasks import output_checks
from fedfleet.tasks.digits import digits_logreg
from fedfleet.tasks.output_checks import check_loss, outputs_of

TASK = digits_logreg()(0)


def test_outputs_are_those_of_the_model(monkeypatch):
    params, rows = TASK.init(3), TASK.holdout[:50]
    monkeypatch.setattr(output_checks, "_BATCH", 7)
    module = TASK.build()
    module.load_state_dict({n: torch.from_numpy(v) for n, v in params.items()})
    wanted = module(torch.from_numpy(TASK.dataset.x[rows])).detach().numpy()
    np.testing.assert_allclose(outputs_of(TASK, params, rows), wanted, rtol=1e-5, atol=1e-6)
    assert outputs_of(TASK, params, rows[:0]).shape == (0, 10)


def test_what_a_loss_gives_is_seen_by_trying():
    each = check_loss(lambda o, t: torch.nn.functional.cross_entropy(o, t, reduction="none"), TASK)
    assert not each.joint
    assert check_loss(torch.nn.functional.cross_entropy, TASK).joint
    with pytest.raises(BadInput, match="not a function"):
        check_loss("hinge", TASK)
    with pytest.raises(BadInput, match=r"the class CrossEntropyLoss; give an instance, loss=CrossEntropyLoss\(\)"):
        check_loss(torch.nn.CrossEntropyLoss, TASK)
    with pytest.raises(BadInput, match=r"shape \(3, 10\) for 3 samples; return a tensor with one value per sample"):
        check_loss(lambda o, t: o, TASK)
    with pytest.raises(BadInput, match=r"shape \(3, 1\)"):  # beside weights of shape (3,) it would become (3, 3)
        check_loss(lambda o, t: o[:, :1], TASK)
