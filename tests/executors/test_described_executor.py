"""The executor of described models: its engines by name, and how near each is to PyTorch."""

import numpy as np
import pytest

import fedfleet
from fedfleet.executors.described_executor import load_engine

pytestmark = pytest.mark.slow


def test_an_engine_that_does_not_exist_is_an_error_of_the_caller():
    with pytest.raises(ValueError, match="no engine is named 'jax'"):
        load_engine("jax")


# Without kinks (relu, max), where a rounding would decide which way a gradient goes.
SMOOTH = [
    pytest.param("digits_vit", {}, marks=pytest.mark.soak),
    ("text_gpt", {"width": 8, "depth": 1, "heads": 2, "window": 8}),
    ("text_lstm", {"hidden": 8, "window": 8}),
    ("digits_logreg", {}),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", ["numpy", "mnn"])
@pytest.mark.parametrize(("task", "settings"), SMOOTH)
def test_tensors_of_smooth_models_differ_by_rounding_after_one_pass(engine, task, settings):
    if engine == "mnn":
        pytest.importorskip("_mnncengine")
    spec = {
        "task": {"use": task, **settings},
        "algorithm": {"lr": 0.1, "batch": 16, "steps": 10},
        "world": {"clients": 4},
        "pace": {"cohort": 2},
        "stop": {"rounds": 1},
    }
    literal, found = (fedfleet.run(spec, f"run.execute={execute}").params for execute in ("inline", engine))
    for name, value in literal.items():
        assert np.abs(found[name].astype(np.float64) - value).max() <= 1e-4, name
