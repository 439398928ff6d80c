"""Every registered part, and every pair of them, is served as it is simulated, or refused before the run in one sentence.

A simulation that takes a spec and a server that refuses it with a sentence, or trains the same model: there is no third answer.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import fedfleet
from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.client_config import client_configs
from fedfleet.app.assemble.serve_checks import numpy_refusal, rules_table, serve_refusal
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Evaluated, ModelCommitted, ReportRejected, RoundFailed
from fedfleet.store.noise_source import VARIABLE, NoiseSource
from tests.network.in_process import serve_in_process
from tests.network.served_specs import BASE, CLIENTS, alike, axes, pairs, singles, spec_of

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

# Parts whose choices do not depend on the clock: with these the served model is that of the simulation, bit for bit.
TIMELESS = {
    "pace": {"readiness"},
    "choose": {"uniform", "bounded", "explore", "fair", "only", "per_user", "power_of_choice", "round_robin"},
    "privacy": {"none"},
}


@pytest.fixture
def noise_key(tmp_path, monkeypatch):
    """A secret for central noise, as the operator of a server has one."""
    path = tmp_path / "noise.key"
    path.write_bytes(bytes(range(64)))
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def setup_of(spec):
    """The spec put together, or None where the simulation refuses it too."""
    try:
        return assemble(resolve(spec))
    except BadInput:
        return None


def name_of(cell):
    return " ".join(f"{axis}={name}" for axis, name in cell.items() if name not in ("none", next(iter(axes()[axis]))))


def served_or_refused(cell, spec, folder: Path):
    """One cell: two rounds on a server of this process, or a refusal that a person can act on."""
    setup = setup_of(spec)
    if setup is None:
        return "not simulated"
    refusal = serve_refusal(setup)
    if refusal is not None:
        setting, _, rest = refusal.partition(": ")
        assert setting and ";" in rest, refusal
        return "refused"
    engine = "torch" if numpy_refusal(setup) else "numpy"
    noising = NoiseSource(bytes(32)) if setup.plan.algorithm.fold.noise is not None else None
    served = serve_in_process(setup, folder, engine=engine, seconds=60.0, **({} if noising is None else {"noising": noising}))
    assert not served.errors and not [line for line in served.said if "declin" in line], (served.errors, served.said)
    ended = [e for e in served.events if isinstance(e, ModelCommitted | RoundFailed)]
    assert len(ended) >= 2, ended
    hostile = cell.get("attack", "none") != "none"
    assert hostile or not [e for e in served.events if isinstance(e, ReportRejected)]
    if all(cell.get(axis, next(iter(names & {"readiness", "uniform", "none"}))) in names for axis, names in TIMELESS.items()):
        simulated = fedfleet.run({**spec, "run": {"execute": "numpy" if engine == "numpy" else "inline"}})
        for leaf, value in served.params.items():
            assert np.array_equal(value, simulated.params[leaf], equal_nan=True), leaf
        return f"the model of the simulation ({engine})"
    return f"trained ({engine})"


@pytest.mark.parametrize("cell", singles(), ids=name_of)
def test_every_part_is_described_to_devices_or_refused_in_one_sentence(cell, noise_key):
    setup = setup_of(spec_of(cell))
    assert setup is not None, "a part that no run can have"
    refusal = serve_refusal(setup)
    assert (refusal is None) == (cell != {"algorithm": "centralized"}), refusal
    if refusal is None:
        config_of = client_configs(setup)
        assert [json.loads(config_of(client, False))["client"] for client in range(CLIENTS)] == [*range(CLIENTS)]


def test_slices_in_a_codec_are_served_as_they_are_simulated(tmp_path):
    cell = {"algorithm": "heterofl", "codec": "up int8"}
    assert served_or_refused(cell, spec_of(cell), tmp_path) == "the model of the simulation (numpy)"


def test_a_selector_that_foresees_is_served(tmp_path):
    cell = {"choose": "timely_interval", "algorithm": "timelyfl"}
    assert served_or_refused(cell, spec_of(cell), tmp_path) == "trained (numpy)"


def test_the_noise_of_devices_is_not_that_of_the_seed(tmp_path):
    spec = spec_of({"privacy": "local"})
    served = serve_in_process(assemble(resolve(spec)), tmp_path)
    simulated = fedfleet.run(spec)
    assert [e for e in served.events if isinstance(e, ModelCommitted)]
    assert not any(np.array_equal(value, simulated.params[leaf]) for leaf, value in served.params.items())


@pytest.mark.soak
@pytest.mark.parametrize("cell", pairs() if os.environ.get("FEDFLEET_SOAK") else [], ids=name_of)
def test_every_pair_of_parts_is_served_or_refused(cell, noise_key, tmp_path):
    served_or_refused(cell, spec_of(cell), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("spec", alike(), ids=lambda spec: spec["algorithm"]["up"][0])
def test_the_other_codecs_are_served_too(spec, tmp_path):
    assert served_or_refused({}, spec, tmp_path) == "the model of the simulation (numpy)"


def test_the_table_in_the_documentation_is_that_of_the_rules():
    page = (Path(__file__).parents[2] / "docs/how-to/serve.md").read_text()
    assert rules_table() in page


def test_what_the_secret_is_needed_for_is_said(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    refusal = serve_refusal(assemble(resolve(spec_of({"privacy": "gaussian"}))))
    assert refusal is not None and VARIABLE in refusal
    assert serve_refusal(assemble(resolve(dict(BASE)))) is None


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["torch", "numpy"])
@pytest.mark.parametrize("algorithm", [name for name in axes()["algorithm"] if name != "centralized"])
def test_devices_score_every_method_as_the_simulation_does(algorithm, engine, tmp_path):
    """Each client's own score of the last model: its own layers, its tuning, its memory."""
    spec = spec_of({"algorithm": algorithm})
    setup = assemble(resolve(spec))
    if engine == "numpy" and numpy_refusal(setup):
        return
    served = serve_in_process(setup, tmp_path, engine=engine, evaluate="both")
    simulated = fedfleet.run({**spec, "run": {"execute": "numpy" if engine == "numpy" else "inline"}})
    mine, theirs = (
        [e.clients for e in run.events if isinstance(e, Evaluated) and e.clients is not None][-1] for run in (served, simulated)
    )
    for column in ("clients", "correct", "total"):
        assert np.array_equal(getattr(mine, column), getattr(theirs, column)), column
