"""Samplers as tables: what they declare is what they take, and they draw what the parts of a spec draw."""

import json

import numpy as np
import pytest

from fedfleet.app.api.sample import MEANING
from fedfleet.app.fleets.fleet_samples import (
    SAMPLERS,
    find_sampler,
    read_scores,
    sample_devices,
    sample_states,
    sampler_parameters,
)
from fedfleet.app.spec.table_checks import build_part, resolve_part
from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import StateScorer, client_ids, mean_kbps
from fedfleet.core.registry import builder, names, parameters
from fedfleet.core.rng import client_keys
from tests.app.specs import fleet


def test_samplers_declare_what_the_parts_of_the_same_name_declare():
    for kind, samplers in SAMPLERS.items():
        for name, sampler in samplers.items():
            if name in names(kind):
                assert sampler.declared_by is builder(kind, name)
            assert set(sampler_parameters(sampler)) | set(sampler.without) <= set(parameters(sampler.declared_by))


def test_every_parameter_has_a_meaning_on_the_command_line():
    everything = {n for samplers in SAMPLERS.values() for s in samplers.values() for n in sampler_parameters(s)}
    assert everything == set(MEANING)


def test_devices_are_those_that_a_spec_meets():
    table = resolve_part("devices", {"use": "dpgmm", "kinds": 6, "sigma": 0.8}, "world.devices")
    rows = sample_devices(table, 40, 7)
    source = build_part("devices", table)(client_keys(40), 7)
    assert client_ids(rows).tolist() == list(source.kinds)


@pytest.mark.parametrize("distribution", ["homo", "strong_heavy"])
def test_devices_of_the_pool_are_spread_as_asked(distribution):
    rows = sample_devices({"use": "pool72", "distribution": distribution, "seconds_per_sample": 0.1}, 300, 0)
    assert (len(np.unique(rows.ids)) == 1) == (distribution == "homo")
    assert rows.seconds_per_sample.max() <= 0.1


def test_uniform_draws_rows_of_the_base(tmp_path):
    devices, states = map(str, fleet(tmp_path))
    assert set(sample_devices({"use": "uniform", "base": devices}, 200, 0).ids) == {f"d{i}" for i in range(7)}
    drawn = sample_states({"use": "uniform", "base": states}, 200, None)
    assert np.array_equal(drawn.ids, sample_states({"use": "uniform", "base": states}, 200, 0).ids)


def test_the_mean_speed_is_dialled():
    slow, fast = (mean_kbps(sample_devices({"use": "dpgmm", "mean_mbps": m}, 100, 1)).mean() for m in (20.0, 80.0))
    assert 2 < fast / slow < 8


def test_states_are_ranked_by_given_scores(tmp_path):
    _, states = fleet(tmp_path, 5)
    (tmp_path / "scores.json").write_text(json.dumps({f"s{i}": float(i) for i in range(5)}))
    score: StateScorer = read_scores(tmp_path / "scores.json")
    table = {"use": "dpcsm", "base": str(states), "alpha": 0.001, "start_rank": 1}
    assert set(sample_states(table, 20, 0, score).ids) == {"s3"}, "the second best"


@pytest.mark.parametrize(("text", "says"), [("[1]", "one JSON object"), ("{", "cannot read the scores")])
def test_scores_that_are_no_scores_are_refused(tmp_path, text, says):
    (tmp_path / "scores.json").write_text(text)
    with pytest.raises(BadInput, match=says):
        read_scores(tmp_path / "scores.json")


def test_unknown_samplers_and_parameters_are_refused():
    with pytest.raises(BadInput, match="no sampler of states is called 'dpgmm'; did you mean 'dpcsm'"):
        find_sampler("states", "dpgmm")
    with pytest.raises(BadInput, match="did you mean 'kinds'"):
        sample_devices({"use": "dpgmm", "kind": 3}, 10, 0)
