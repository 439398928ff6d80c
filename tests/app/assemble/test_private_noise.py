"""A private run that asks for an epsilon: its noise keeps what it asked for, barely, and more is never needed for less."""

import json
from importlib.util import find_spec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.client_config import client_config_for
from fedfleet.app.spec import load_spec, resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Promise
from fedfleet.measure.privacy import planned_epsilon, sampled_epsilon, solve_noise
from tests.app.specs import TINY, refused, written

# Not imported here, since every process of tests reads this file, and it takes seconds.
pytestmark = pytest.mark.skipif(find_spec("dp_accounting") is None, reason="dp_accounting is not installed: make dev")
MECHANISMS = ("gaussian", "tree", "local")


def private(table, **others):
    spec = {"task": "digits_logreg", "world": {"clients": 40}, "pace": {"cohort": 8}, "stop": {"rounds": 20}}
    return resolve({**spec, "algorithm": {"private": table}, **others})


@settings(deadline=None, derandomize=True, max_examples=12)
@given(st.sampled_from(MECHANISMS), st.floats(0.1, 50.0), st.integers(1, 120), st.sampled_from([1e-6, 1e-3]))
def test_the_noise_keeps_what_was_asked_for_and_wastes_no_more_than_a_percent(mechanism, epsilon, commits, delta):
    promise = Promise(mechanism, 1.0, delta)
    noise = solve_noise(promise, epsilon, commits)
    result = planned_epsilon(Promise(mechanism, noise, delta), commits)
    assert 0.99 * epsilon <= result <= epsilon
    assert solve_noise(promise, 1.5 * epsilon, commits) <= noise <= solve_noise(promise, epsilon, commits + 1)


def test_counting_on_sampling_never_costs_noise_and_saves_some_of_many_commits():
    plain, sampled = (Promise("gaussian", 1.0, 1e-5, None, sample) for sample in (None, (1000, 10)))
    assert solve_noise(sampled, 4.0, 200) < 0.5 * solve_noise(plain, 4.0, 200)
    assert solve_noise(sampled, 4.0, 1) <= solve_noise(plain, 4.0, 1)
    assert sampled_epsilon(1.0, (1000, 10), 0, 1e-5) == 0.0


def test_a_spec_names_epsilon_alone_and_the_plan_has_cohort_and_noise():
    setup = assemble(private({"epsilon": 8.0}))
    promise = setup.plan.algorithm.private
    assert (promise.mechanism, promise.epsilon, promise.delta, promise.sample) == ("gaussian", 8.0, 1e-5, None)
    assert setup.plan.algorithm.fold.denominator == 8.0
    assert 0.99 * 8.0 <= planned_epsilon(promise, 20) <= 8.0
    assert setup.plan.spec_digest == setup.spec.digest and setup.spec.algorithm["private"]["noise"] is None
    fewer = assemble(private({"epsilon": 8.0}, stop={"rounds": 20, "commits": 5}))
    assert fewer.plan.algorithm.private.noise < promise.noise


def test_the_delta_of_a_large_fleet_is_below_one_in_as_many_clients():
    large = resolve({"world": {"clients": 1_000_000}, "algorithm": {"private": {"epsilon": 1.0}}})
    assert large.algorithm["private"]["delta"] == 1_000_000**-1.1
    given = resolve({"world": {"clients": 1_000_000}, "algorithm": {"private": {"epsilon": 1.0, "delta": 1e-3}}})
    assert given.algorithm["private"]["delta"] == 1e-3


def test_devices_get_the_noise_and_need_no_accountant():
    setup = assemble(private({"epsilon": 8.0, "use": "local"}))
    table = json.loads(client_config_for(setup, 0))["algorithm"]["private"]
    assert table["noise"] == setup.plan.algorithm.private.noise


def test_old_specs_mean_what_they_did():
    old = private({"use": "gaussian", "cohort": 8, "noise": 1.0})
    assert private({"use": "gaussian", "cohort": 8}).digest == old.digest
    assert set(old.table()["algorithm"]["private"]) == {"use", "cohort", "clip", "noise", "delta"}


@pytest.mark.parametrize(
    ("table", "others", "says"),
    [
        ({"epsilon": 8.0, "noise": 1.0}, {}, "noise and epsilon are both given"),
        ({"epsilon": 8.0}, {"pace": "buffered"}, "under 'buffered' a client can have several reports in one commit"),
        ({"epsilon": 8.0}, {"pace": {"cohort": 8, "max_staleness": 2}}, "max_staleness = 0"),
        ({"epsilon": 0.001, "use": "tree"}, {"stop": {"rounds": 1000}}, "no noise up to 10000 keeps epsilon at 0.001"),
        ({"epsilon": 8.0, "amplify": True}, {"choose": "oort"}, "'oort' does not give every client the same chance"),
        (
            {"epsilon": 8.0, "amplify": True}, {"world": {"clients": 40, "states": {"use": "daily", "ready": 0.5}}},
            "clients are not reachable at all times",
        ),
        (
            {"epsilon": 8.0, "amplify": True}, {"pace": {"use": "overcommit", "policy": {"use": "readiness", "cohort": 8}}},
            "does not draw a whole cohort for each commit",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_promised_is_refused_with_the_cure(table, others, says):
    with pytest.raises(BadInput, match=says):
        assemble(private(table, **others))


@pytest.mark.slow
def test_a_check_and_a_run_say_noise_and_epsilon_and_the_run_stays_below(fedfleet, tmp_path):
    spec = written(tmp_path, TINY + "\n[algorithm.private]\nepsilon = 8.0\n")
    checked = json.loads(fedfleet("run", spec, "--check", "--json")[1])["privacy"]
    assert 7.92 <= checked["epsilon"] <= 8.0 and checked["commits"] == 6 and not checked["amplified"]
    text = fedfleet("run", spec, "--check")[1]
    assert f"noise {checked['noise']:.4g} times the clipping norm keeps epsilon at" in text
    _, out, _ = fedfleet("run", spec, "--out", tmp_path / "out")
    assert "(at most 8 was asked for)" in out and f"with noise {checked['noise']:.4g} times the clipping norm" in out
    found = json.loads((tmp_path / "out/metrics.json").read_text())["privacy"]
    assert found["epsilon"] <= 8.0 and (found["noise"], found["epsilon_asked"]) == (checked["noise"], 8.0)
    assert "at most 8 was asked for" in (tmp_path / "out/report.html").read_text()
    assert json.loads(fedfleet("replay", tmp_path / "out", "--json")[1])["ok"]
    assert load_spec(tmp_path / "out/spec.toml").digest == load_spec(spec).digest
    amplified = json.loads(fedfleet("run", spec, "algorithm.private.amplify=true", "--check", "--json")[1])["privacy"]
    assert amplified["noise"] <= checked["noise"]
    refused(fedfleet("serve", spec, "algorithm.private.amplify=true", "--address", "127.0.0.1:0"), "devices know the seed")
