"""A small fleet on which some are left out, and one prediction of it that many tests look at."""

import pytest

from fedfleet.app.spec import resolve
from fedfleet.app.studies.predict.prediction import predict

TABLE = {
    "seed": 3,
    "task": {"use": "digits_logreg"},
    "world": {
        "clients": 24,
        "model_bytes": 40_000_000,
        "data": {"use": "dirichlet", "alpha": 0.3},
        "devices": {"use": "spread", "mbps": 20.0, "link": 1.2, "jitter": 0.2},
    },
    "algorithm": {"use": "fedavg", "lr": 0.3},
    "pace": {"use": "deadline", "cohort": 6, "seconds": 40.0},
    "stop": {"rounds": 12},
}


@pytest.fixture(scope="package")
def kept(tmp_path_factory):
    """Where reference runs of these tests are kept."""
    return tmp_path_factory.mktemp("reference")


@pytest.fixture(scope="package")
def foretold(kept):
    """The prediction of the small fleet."""
    return predict(resolve(TABLE), cache=kept)
