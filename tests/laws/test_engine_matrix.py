"""Numpy and MNN beside inline for every registered codec, fold, attack, pacing, privacy, edge: the same model, or one refusal."""

import numpy as np
import pytest

import fedfleet
from fedfleet.core.errors import BadInput
from fedfleet.core.registry import names

pytestmark = pytest.mark.slow

BASE = {"task": "digits_mlp", "world": {"clients": 8}, "pace": {"cohort": 4}, "stop": {"rounds": 2}}
USERS = {"clients": 12, "users": {"use": "groups", "count": 4}, "data": {"use": "dirichlet"}}
PACES = {
    "overcommit": {"use": "overcommit", "policy": {"use": "readiness", "cohort": 3}},
    "first_of": {"use": "first_of", "first": {"use": "readiness", "cohort": 4}, "second": {"use": "deadline", "cohort": 4}},
    **{name: {"use": name, "concurrency": 4} for name in ("buffered", "semi_async")},
}
CELLS = {
    **{f"codec {name}": {"algorithm": {"up": [name], "feedback": True}} for name in names("codecs")},
    **{f"fold {name}": {"algorithm": {"fold": name}} for name in names("folds")},
    **{f"attack {name}": {"algorithm": {"attack": name}} for name in names("attacks")},
    **{f"pace {name}": {"pace": PACES.get(name, {"use": name, "cohort": 4})} for name in names("policies")},
    **{f"privacy {name}": {"algorithm": {"private": {"use": name, "noise": 0.5, "clip": 1.0}}} for name in names("privacy")},
    **{f"edge {name}": {"world": USERS, "pace": {"cohort": 2}, "edge": {"use": name}} for name in names("edges")},
}


def outcome(cell, execute):
    """The model of a run, or the sentence that refuses it."""
    try:
        return fedfleet.run({**BASE, "seed": 1, **cell}, f"run.execute={execute}").params
    except BadInput as refusal:
        return str(refusal)


# Both share their executor: of MNN the soak runs what is not among these.
QUICK = {"codec int8", "edge hierfl"}
BOTH = [
    *(("numpy", name) for name in CELLS),
    *(pytest.param("mnn", name, marks=() if name in QUICK else pytest.mark.soak) for name in CELLS),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("engine", "name"), BOTH)
def test_an_engine_gives_the_model_of_inline_or_the_same_refusal(engine, name):
    if engine == "mnn":
        pytest.importorskip("_mnncengine")
    literal, found = (outcome(CELLS[name], execute) for execute in ("inline", engine))
    if isinstance(literal, str):
        assert found == literal
        return
    assert not isinstance(found, str), found
    for leaf, value in literal.items():
        # Codecs round: a value on an edge between two steps may take the other one.
        assert np.abs(found[leaf].astype(np.float64) - value).max() <= 5e-3 * max(float(np.abs(value).max()), 1e-3), leaf
