"""Attackers: who they are, what they send, and that honest clients and other methods never notice."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.events import ReportRejected, ReportsGathered
from fedfleet.core.part_facts import RunFacts
from fedfleet.core.parts import Job
from fedfleet.core.rng import attackers, client_keys
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.learn.attacks import nan, scaled, sign_flip, with_attack
from fedfleet.learn.zoo import fedavg, fedprox
from fedfleet.testing.toys import consensus
from tests.learn.digits import CLIENTS, models, task, trained
from tests.worlds import only

pytestmark = pytest.mark.slow

FACTS = RunFacts(CLIENTS, 3, 5)
SHARE, SEED = 0.25, 3
KEYS = client_keys(CLIENTS)
BAD = set(np.flatnonzero(attackers(SEED, KEYS, SHARE, CLIENTS)).tolist())
KINDS = {
    "sign_flip": (sign_flip(facts=FACTS, share=SHARE, factor=4.0), -4.0),
    "scaled": (scaled(facts=FACTS, share=SHARE, factor=2.0), 2.0),
    "nan": (nan(facts=FACTS, share=SHARE), np.nan),
}


def reports(algorithm, make, order=range(CLIENTS)):
    server = algorithm.init(task().init(3))
    jobs = [
        Job(
            c,
            c,
            int(KEYS[c]),
            SEED,
            algorithm.offer(server, c, {}),
            algorithm.local(c, {}),
            np.arange(20 * c, 20 * c + 20),
        )
        for c in order
    ]
    return {r.client: r for r in make(task()).train(jobs)}


@pytest.mark.parametrize("make", [inline, stacked_executor], ids=["inline", "stacked"])
@pytest.mark.parametrize("name", KINDS)
def test_attackers_send_their_harm_and_honest_clients_what_they_always_send(name, make):
    attack, times = KINDS[name]
    honest, mixed = reports(fedavg(), make), reports(with_attack(fedavg(), attack), make)
    assert len(BAD) == 2
    for client, report in mixed.items():
        for leaf, value in report.update.items():
            wanted = honest[client].update[leaf] * (np.float32(times) if client in BAD else np.float32(1))
            assert np.array_equal(value, wanted, equal_nan=True)
        assert report.weight == honest[client].weight


def test_attackers_and_honest_clients_train_in_one_stack():
    algorithm = with_attack(fedavg(), KINDS["sign_flip"][0])
    assert len({algorithm.local(c, {}) for c in range(CLIENTS)}) == 1


def test_the_same_clients_attack_every_method():
    for algorithm in (fedavg(), fedprox(mu=0.1)):
        result = reports(with_attack(algorithm, KINDS["nan"][0]), inline)
        assert {c for c, r in result.items() if any(np.isnan(v).any() for v in r.update.values())} == BAD


def test_an_attack_by_nobody_changes_no_bit():
    quiet = with_attack(fedavg(), sign_flip(facts=FACTS, share=0.0))
    assert models(trained(quiet)[0]) == models(trained(fedavg())[0])


def test_what_is_not_finite_is_refused_with_a_reason_and_the_run_goes_on():
    events, _ = trained(with_attack(fedavg(), KINDS["nan"][0]), cohort=CLIENTS)
    assert {e.client for e in only(ReportRejected, events)} == BAD
    assert all("is not finite" in e.reason for e in only(ReportRejected, events))
    assert [len(e.tasks) for e in only(ReportsGathered, events)] == [CLIENTS - len(BAD)] * 2


def test_an_opaque_pass_cannot_be_attacked():
    with pytest.raises(BadInput, match="a function of its own"):
        with_attack(consensus(), KINDS["nan"][0]).local(0, {})


@pytest.mark.filterwarnings("ignore:the model is not clearly better than chance")
def test_a_fifth_that_flips_its_sign_ruins_the_mean_and_not_a_robust_fold():
    """A small sample of benchmarks/robustness.py."""
    import fedfleet as ff

    def accuracy(fold, attack):
        algorithm = {"lr": 0.3, "epochs": 1, "fold": fold} | ({"attack": "sign_flip"} if attack else {})
        world = {"clients": 10, "split": [8, 1, 1]}  # two of ten attack
        spec = {
            "task": "digits_logreg",
            "algorithm": algorithm,
            "world": world,
            "pace": {"cohort": 10},
            "stop": {"rounds": 12},
        }
        return ff.run({**spec, "run": {"execute": "stacked"}}).metrics["accuracy"]

    clean = accuracy("mean", False)
    assert accuracy("mean", True) <= clean / 2
    for fold in ("median", "trimmed_mean", {"use": "multi_krum", "f": 2}):
        assert accuracy(fold, True) >= clean - 0.05
