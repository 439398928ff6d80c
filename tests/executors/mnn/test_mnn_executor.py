"""The executor with MNN trains what PyTorch trains: the matrix of passes, and every registered method."""

import numpy as np
import pytest

import fedfleet
from fedfleet.core.errors import BadInput
from fedfleet.core.registry import names
from fedfleet.executors.described_executor import described_executor
from fedfleet.testing import check_executor
from fedfleet.testing.passes import SINGLES, cases
from tests.executors.numpy.test_numpy_executor import WRITTEN_FOR_TORCH, table
from tests.testing.models import TASKS
from tests.testing.registered import fitting_task

pytest.importorskip("_mnncengine")
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["convolutions", *(pytest.param(n, marks=pytest.mark.soak) for n in ("dense", "batch norm"))])
def test_mnn_does_what_inline_does_in_the_cells_of_the_matrix(name):
    task = TASKS[name]()
    some = [c for i, c in enumerate(cases(task)) if (i % 7 == 0 or c.name in SINGLES) and c.name not in WRITTEN_FOR_TORCH]
    check_executor(described_executor("mnn", task), task, only=some)


QUICK = {"fedavg", "fedprox", "scaffold", "fedper", "fedkd"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("algorithm", [n if n in QUICK else pytest.param(n, marks=pytest.mark.soak) for n in names("algorithms")])
def test_every_registered_method_trains_as_inline_does_or_is_refused_by_name(algorithm):
    spec = table(algorithm, fitting_task(algorithm))
    literal = fedfleet.run(spec, "run.execute=inline")
    if algorithm == "fedkd":
        with pytest.raises(BadInput, match=r'run\.execute = "mnn": the training objective of fedkd is written for PyTorch; use'):
            fedfleet.run(spec, "run.execute=mnn")
        return
    found = fedfleet.run(spec, "run.execute=mnn")
    for name, value in literal.params.items():
        scale = max(float(np.abs(value).max()), 1e-3)
        assert np.abs(found.params[name].astype(np.float64) - value).max() <= 2e-4 * scale, name


@pytest.mark.filterwarnings("ignore")
def test_a_run_gives_the_same_bits_twice_and_says_which_mnn_it_had(tmp_path):
    spec = {**table("fedavg", "digits_cnn"), "run": {"execute": "mnn"}}
    first, second = (fedfleet.run(spec, out=tmp_path / name) for name in "ab")
    assert all(np.array_equal(first.params[n], v) for n, v in second.params.items())
    assert '"MNN":' in (tmp_path / "a/executor.json").read_text()
    assert {"models", "scores", "losses"} <= set(fedfleet.replay(tmp_path / "a")["verified"])
