"""What may be put around any algorithm: it reaches every one of them, inline and stacked, or is refused in a sentence."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.app.spec import resolve
from fedfleet.core.cost import cost_of
from fedfleet.core.errors import BadInput
from fedfleet.core.events import ModelCommitted, ReportRejected, TaskArrived
from fedfleet.core.part_facts import RunFacts
from fedfleet.core.parts import Offer
from fedfleet.core.records import Assignments, Cost, ServerState, Stop, whole_work
from fedfleet.core.registry import names
from fedfleet.core.trees import tree_nbytes
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.learn.attacks import sign_flip
from fedfleet.learn.differential_privacy import gaussian
from fedfleet.learn.features import with_features, with_variants
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.folds import norm_bound
from fedfleet.learn.zoo import fedrep, ft
from fedfleet.simulation.simulator import simulate
from fedfleet.testing import check_algorithm
from tests.learn.digits import CLIENTS, models, task, trained
from tests.testing.registered import FITTING, assembled, built
from tests.worlds import only

pytestmark = pytest.mark.slow

CODED = {"up": ["int4"], "down": ["bf16"], "feedback": True}


def test_without_any_of_it_the_algorithm_is_itself():
    plain = fedavg()
    assert with_features(plain) is plain
    assert with_features(plain, up=[], down=[], feedback=False) is plain


@pytest.mark.parametrize("name", [n for n in names("algorithms") if n not in ("centralized", "fedkd")])
@pytest.mark.parametrize("execute", [inline, stacked_executor])
def test_codecs_go_around_every_algorithm(name, execute):
    # What was lost of a slice cannot be added to the next one, of another width.
    setup = assembled(name, **{**CODED, "feedback": name != "fjord"})
    check_algorithm(setup.plan.algorithm, setup.task, execute(setup.task))


def test_keeping_and_tuning_go_together_and_keep_the_name():
    result = with_features(fedavg(lr=0.3), keep="head.*", fine_tune=3)
    assert result.name == "fedavg"
    assert result.local(0, {}).keep("head.bias") and not result.local(0, {}).keep("body.bias")
    assert (result.tune(0).batches.epochs, result.tune(0).rate, result.tune(0).keep) == (3, 0.3, None)


def test_what_is_kept_twice_is_kept_once_and_both_patterns_count():
    result = with_features(fedrep(), keep="norm.*").local(0, {})
    assert [result.keep(n) for n in ("head.bias", "norm.bias", "body.bias")] == [True, True, False]


def test_tuning_twice_is_refused():
    with pytest.raises(BadInput, match=r"'ft' tunes before .* already; set algorithm.tune_epochs"):
        with_features(ft(), fine_tune=2)


@pytest.mark.parametrize("name", names("algorithms"))
def test_around_any_algorithm(name):
    for around in ({"keep": "head.*"}, {"fine_tune": 2}):
        tuned = around.get("fine_tune") and built("algorithms", name).tune is not None
        if tuned or name == "centralized" or (name == "ditto" and "keep" in around):
            with pytest.raises(BadInput, match=name):
                with_features(built("algorithms", name), **around)
        else:
            assert with_features(built("algorithms", name), **around).name == name


def test_attackers_come_before_what_protects():
    attack = sign_flip(facts=RunFacts(8, 3, 5))
    both = with_features(fedavg(), fold=norm_bound(0.5), attack=attack, private=gaussian(cohort=4, clip=1.0))
    assert (both.fold.clip, both.fold.denominator) == (0.5, 4.0)
    assert len(both.local(0, {}).after) == 1


def test_every_algorithm_of_a_spec_takes_them():
    for name in names("algorithms"):
        table = {"use": name, "attack": "sign_flip", "fold": "mean"}
        result = resolve({"algorithm": table}).algorithm
        assert result["attack"] == {"use": "sign_flip", "share": 0.2, "factor": 4.0}
        assert result["private"] is None


GAUSSIAN = {"use": "gaussian", "cohort": 3}
LATE, CHANGING = ("fedbuff", "fedasync", "stale_fedavg", "fedavg_plus"), ("median", "bound", "noise", "own_noise")
DENIED = {
    **{(name, "median"): r"algorithm.fold: .* weighs reports by how late" for name in LATE},
    **{(name, "median"): r"algorithm.fold: .* by who trained it" for name in ("heterofl", "fjord", "timelyfl")},
    **{(name, way): r"remembers the same updates" for name in ("scaffold", "feddyn") for way in CHANGING},
    **{("fednova", way): r"how far its training went" for way in CHANGING},
    ("fedavg_plus", "noise"): r"algorithm.private: .* several sums, but noise covers only one",
    ("fetchsgd", "keep"): r"algorithm.keep: 'fetchsgd' sends its whole update as one code",
    ("timelyfl", "keep"): r"timelyfl sends the last layers",
    ("fedkd", "up"): r"up: 'fedkd' already makes its updates small",
    ("centralized", "attack"): r"algorithm.attack: 'centralized' trains in one place",
}
AROUND = {
    "median": {"fold": "median"},
    "bound": {"fold": "norm_bound"},
    "noise": {"private": GAUSSIAN},
    "own_noise": {"private": "local"},
    "keep": {"keep": "*.bias"},
    "up": {"up": ["int8"]},
    "attack": {"attack": "nan"},
    "owing": {"up": ["int4"], "feedback": True},
}


@pytest.mark.parametrize(("name", "way"), DENIED)
def test_what_would_be_silently_wrong_together_is_refused_before_the_run(name, way):
    with pytest.raises(BadInput, match=DENIED[name, way]) as wrong:
        assembled(name, task={"use": "digits_mlp"}, **AROUND[way])
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize("way", ["keep", "bound", "noise", "median"])
@pytest.mark.parametrize("name", [n for n in names("algorithms") if not n.startswith("biasprompt") and n != "centralized"])
def test_what_is_not_refused_is_folded(name, way):
    """A round of it makes a model, and nobody's report is refused."""
    try:
        setup = assembled(name, task=FITTING.get(name, {"use": "digits_mlp"}), **AROUND[way])
    except BadInput:
        return
    events = []
    plan = replace(setup.plan, stop=Stop(rounds=1))
    simulate(plan, setup.world, inline(setup.task), watch=events.extend)
    assert not only(ReportRejected, events)
    assert len(only(ModelCommitted, events)) == 1


def test_what_stays_home_is_named_by_leaves_of_the_model_alone():
    """A pattern that the names of control variates match too keeps the model's leaves, and nothing else."""
    plan = assembled("scaffold", task={"use": "digits_mlp"}, keep="*.bias").plan
    sent = plan.algorithm.fold.like(plan.algorithm.init(plan.params))
    assert "control/1.bias" in sent and "1.bias" not in sent


def test_noise_of_a_clients_own_makes_low_rank_whole_again():
    def sent(**more):
        setup = assembled("fedkd", task={"use": "digits_mlp"}, energy_first=0.5, energy_last=0.5, **more)
        events = []
        simulate(replace(setup.plan, stop=Stop(rounds=1)), setup.world, inline(setup.task), watch=events.extend)
        return [e.bytes_up for e in only(TaskArrived, events)], tree_nbytes(setup.plan.params)

    plain, whole = sent()
    assert max(plain) < whole and set(sent(private="local")[0]) == {whole}


SERVER = ServerState({"w": np.zeros(10, np.float32)})


def test_overridden_clients_train_and_cost_as_their_variant_says():
    base, slow, late = fedavg(epochs=1), fedavg(epochs=3), fedavg(epochs=5)
    mixed = with_variants(base, ((np.array([1, 2]), slow), (np.array([2, 4]), late)), CLIENTS)
    epochs = [mixed.local(c, {}).batches.epochs for c in range(6)]
    assert epochs == [1, 3, 5, 1, 5, 1]  # a later variant wins
    server = ServerState({"w": np.zeros(10, np.float32)})
    cost = cost_of(mixed, server, whole_work(np.array([4, 0, 1])), np.array([10, 20, 30]))
    assert cost.samples.tolist() == [50, 20, 90]
    assert cost.bytes_up.tolist() == [40, 40, 40]


def test_overridden_with_the_same_settings_changes_nothing():
    mixed = with_variants(fedavg(), ((np.arange(CLIENTS), fedavg()),), CLIENTS)
    assert models(trained(mixed)[0]) == models(trained(fedavg())[0])


def test_overriding_changes_what_the_client_reports():
    lazy = with_variants(fedavg(), ((np.arange(CLIENTS), fedavg(lr=1e-9)),), CLIENTS)
    _, end = trained(lazy)
    assert all(np.allclose(end.state.server.params[n], p, atol=1e-5) for n, p in task().init(3).items())


def test_overridden_clients_are_offered_what_their_variant_offers():
    half = Offer({"w": np.zeros(5, np.float32)})
    small = replace(fedavg(), offer=lambda server, client, settings: half)
    mixed = with_variants(fedavg(), ((np.array([1]), small),), 3)
    assert mixed.offer(SERVER, 1, {}) is half
    assert mixed.offer(SERVER, 0, {}).params is SERVER.params
    assert cost_of(mixed, SERVER, whole_work(np.array([0, 1])), np.array([1, 1])).bytes_down.tolist() == [40, 20]


def test_a_variant_with_a_price_of_its_own_is_asked_for_its_own_clients_only():
    asked_for = []

    def dear(server: ServerState, asked: Assignments, samples) -> Cost:
        asked_for.append((asked.clients.tolist(), asked.settings["speed"].tolist(), samples.tolist()))
        return Cost(samples * 100.0, np.full(len(samples), 7.0), np.full(len(samples), 8.0))

    mixed = with_variants(fedavg(epochs=1, batch=5), ((np.array([2, 3]), replace(fedavg(), cost=dear)),), 4)
    asked = replace(whole_work(np.array([3, 0, 2])), settings={"speed": np.array([3.0, 0.0, 2.0])})
    cost = cost_of(mixed, SERVER, asked, np.array([10, 20, 30]))
    assert asked_for == [([3, 2], [3.0, 2.0], [10, 30])]
    assert cost.samples.tolist() == [1000, 20, 3000]
    assert (cost.bytes_down.tolist(), cost.bytes_up.tolist()) == ([7, 40, 7], [8, 40, 8])
    assert cost.batches.tolist() == [0, 4, 0]  # who does not count batches pays nothing for them


def test_each_client_tunes_as_its_variant_says_or_not_at_all():
    mixed = with_variants(fedavg(), ((np.array([1]), ft(tune_epochs=3)), (np.array([2]), ft(tune_epochs=4))), 3)
    assert [t if t is None else t.batches.epochs for t in map(mixed.tune, range(3))] == [None, 3, 4]
    assert with_variants(fedavg(), ((np.array([1]), fedavg()),), 3).tune is None
    events, end = trained(with_variants(fedavg(), ((np.arange(4), ft()),), CLIENTS))
    assert models(events) == models(trained(fedavg())[0]) and end.state.book.version == 2


def test_one_client_whose_bytes_depend_on_values_makes_everyone_train_first():
    dear = replace(fedavg(), priced_by_value=True)
    assert with_variants(fedavg(), ((np.array([1]), dear),), 3).priced_by_value
