"""Against drift: what SCAFFOLD and FedDyn remember, and where they end where FedAvg ends elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.core.cost import cost_of
from fedfleet.core.errors import BadInput
from fedfleet.core.part_facts import RunFacts
from fedfleet.core.passes import Carry
from fedfleet.core.records import ServerState, whole_work
from fedfleet.executors.inline import inline
from fedfleet.learn.composition import with_pass
from fedfleet.learn.drift_correction import weights_of, with_control_variates, zero_weights
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.leaves import column
from fedfleet.learn.zoo import feddyn, scaffold
from fedfleet.simulation.simulator import simulate
from fedfleet.testing.toys import consensus
from tests.learn.digits import CLIENTS, models, task, trained
from tests.learn.facts import FACTS
from tests.learn.quadratics import optimum, settled

pytestmark = pytest.mark.slow

UNLIKE = ((1, 0, 4), (2, 3, 4), (1, -5, 4))  # (root of the curvature, minimum, samples)
THREE = RunFacts(clients=3, seed=0, rounds=100)


def frozen(passed):
    """Control variates that stay zero, at home and on their way up."""
    update = {n: v * 0.0 if n.startswith("control/") else v for n, v in passed.update.items()}
    return replace(passed, update=update, memory={"control": {n: v * 0.0 for n, v in passed.memory["control"].items()}})


@pytest.mark.parametrize("weigh", ["one", "samples"])
def test_scaffold_whose_controls_stay_zero_is_fedavg_bit_for_bit(weigh):
    still = with_pass(scaffold(weigh=weigh, lr=0.1, facts=FACTS), "", lambda p: replace(p, after=(*p.after, frozen)))
    assert models(trained(still, rounds=3)[0]) == models(trained(fedavg(weigh=weigh), rounds=3)[0])


@pytest.mark.parametrize("weigh", ["one", "samples"])
def test_the_common_control_is_the_mean_of_all_clients_own(weigh):
    _, end = trained(scaffold(weigh=weigh, facts=FACTS), rounds=4, cohort=3)
    server = end.state.server
    homes = [end.memory.slots_of(c)["control"] for c in end.memory.current]
    assert 3 < len(homes) <= CLIENTS, "some took part, some twice"
    for name in server.params:
        mean = sum(home[name] for home in homes) / CLIENTS
        scale = np.abs(mean).max()
        assert scale > 0
        assert np.abs(server.extra[f"control/{name}"] - mean).max() < 1e-5 * scale


def test_a_clients_control_is_its_mean_gradient():
    """With one step and no common control yet, it is the gradient itself: what the step has subtracted, over the rate."""
    _, end = trained(scaffold(steps=1, lr=0.25, facts=FACTS), rounds=1, cohort=8)
    mean = sum(end.memory.slots_of(c)["control"]["1.weight"] for c in range(CLIENTS)) / CLIENTS
    moved = end.state.server.params["1.weight"] - task().init(3)["1.weight"]
    assert np.allclose(moved, -0.25 * mean, atol=1e-6)


LIKE = {"lr": 0.1, "epochs": 1, "batch": 1}  # four steps a round
AGAINST_DRIFT = {
    "scaffold": scaffold(strength=1.0, facts=THREE, **LIKE),
    "feddyn": feddyn(alpha=2.0, facts=THREE, **LIKE),
}


@pytest.mark.parametrize("name", AGAINST_DRIFT)
@pytest.mark.parametrize(("cohort", "rounds"), [(3, 25), (2, 40)])
def test_unlike_parabolas_end_at_the_common_optimum(name, cohort, rounds):
    """Whether everybody takes part or not."""
    result, end = settled(AGAINST_DRIFT[name], UNLIKE, rounds=rounds, cohort=cohort)
    assert result == pytest.approx(optimum(UNLIKE), abs=1e-4)
    assert len(end.memory.current) == 3


def test_where_fedavg_ends_elsewhere():
    result, _ = settled(fedavg(weigh="one", **LIKE), UNLIKE, rounds=25)
    assert abs(result - optimum(UNLIKE)) > 0.5


def test_feddyn_remembers_the_sum_of_its_clients_drifts():
    _, end = trained(feddyn(facts=FACTS), rounds=4, cohort=3)
    drifts = [end.memory.slots_of(c)["drift"] for c in end.memory.current]
    for name in end.state.server.params:
        mean = sum(drift[name] for drift in drifts) / CLIENTS
        assert np.abs(end.state.server.extra[f"drift/{name}"] - mean).max() < 1e-5 * np.abs(mean).max()


def test_feddyn_as_released_takes_the_mean_over_those_who_report():
    """With everybody in every round the two are the same; with few they are not."""
    ends = {
        (kind, cohort): trained(feddyn(semantics=kind, facts=FACTS), rounds=3, cohort=cohort)[1].state.server.params
        for kind in ("paper", "released")
        for cohort in (3, 8)
    }
    name = "1.weight"
    assert np.allclose(ends["paper", 8][name], ends["released", 8][name], atol=1e-5)
    assert not np.allclose(ends["paper", 3][name], ends["released", 3][name], atol=1e-3)


def test_feddyns_tilt_is_the_gradient_of_what_it_adds():
    pull, tilt = feddyn(alpha=0.5, facts=FACTS).local(0, {}).terms
    assert pull.mu == 0.5
    assert tilt({"w": 0.0}, {"w": 0.0}, Carry({"drift": {"w": 3.0}}, {}))["w"] == 1.5


@pytest.mark.parametrize("options", [{"momentum": 0.9}, {"optimiser": "adam"}])
def test_scaffold_refuses_steps_that_do_not_say_the_gradient(options):
    with pytest.raises(BadInput, match='set optimiser = "sgd" and momentum = 0'):
        scaffold(facts=FACTS, **options)


def test_scaffold_needs_a_pass_that_can_be_read():
    with pytest.raises(BadInput, match="a function of its own"):
        with_control_variates(consensus(), facts=FACTS)


def test_scaffold_doubles_both_links_and_feddyn_neither():
    params = {"w": np.zeros(100, np.float32)}
    for method, factor in ((scaffold, 2), (feddyn, 1)):
        built = method(facts=FACTS)
        cost = cost_of(built, built.init(params), whole_work(np.arange(2)), np.array([7, 9]))
        assert cost.bytes_down.tolist() == cost.bytes_up.tolist() == [400.0 * factor] * 2


def test_everybody_is_offered_the_same_object_until_the_server_moves_on():
    built = scaffold(facts=FACTS)
    server = built.init({"w": np.zeros(2, np.float32)})
    assert built.offer(server, 0, {}) is built.offer(server, 5, {})
    later = ServerState(server.params, {n: v + 1 for n, v in server.extra.items()})
    assert built.offer(later, 0, {}).extra["control/w"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("method", [scaffold, feddyn])
def test_equal_settings_of_one_algorithm_train_together(method):
    built = method(facts=FACTS)
    assert built.local(0, {}) == built.local(7, {})


def test_running_statistics_and_counters_are_no_weights():
    model = {
        "1.weight": np.ones(2, np.float32),
        "1.running_mean": np.ones(2, np.float32),
        "1.num_batches_tracked": np.array(3),
    }
    assert set(weights_of(model)) == set(zero_weights(model)) == {"1.weight"}


def test_a_column_broadcasts_against_a_stack():
    stack = torch.ones(2, 3, 4)
    assert (stack * column(np.array([1.0, 2.0]), stack))[:, 0, 0].tolist() == [1.0, 2.0]
    assert column(np.array([1.0, 2.0]), stack).dtype == torch.float32


def test_what_stays_at_home_is_not_corrected():
    head = "1.bias"
    base = scaffold(facts=FACTS)
    home = with_pass(base, "", lambda p: replace(p, keep=head.__eq__))
    like = {n: v for n, v in base.fold.like(base.init(task().init(3))).items() if n != head}
    kept = replace(home, fold=replace(home.fold, like=lambda server: like))
    events, end = trained(kept, rounds=2)
    assert len(set(models(events))) == 2
    assert not end.state.server.extra[f"control/{head}"].any()
    assert end.state.server.extra["control/1.weight"].any()


@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_what_the_server_remembers_is_the_mean_of_the_clients_memory_however_they_come(name):
    """Asynchronous: whoever waits for its report to be folded is not asked again, or one of its changes would be lost."""
    pace = {"use": "buffered", "k": 4, "concurrency": 4}
    table = {"task": "digits_logreg", "algorithm": name, "world": {"clients": 8, "devices": "spread"}, "pace": pace}
    setup = assemble(resolve({**table, "seed": 3, "stop": {"rounds": 6}}))
    end = simulate(setup.plan, setup.world, inline(setup.task))
    slot = {"scaffold": "control", "feddyn": "drift"}[name]
    for n, v in setup.plan.params.items():
        own = [end.memory.slots_of(c).get(slot, {}).get(n, np.zeros_like(v)) for c in range(8)]
        np.testing.assert_allclose(end.state.server.extra[f"{slot}/{n}"], np.mean(own, 0), atol=1e-6)


def test_more_reports_in_a_commit_than_clients_that_remember_are_refused():
    table = {"task": "digits_logreg", "world": {"clients": 8}, "pace": {"use": "buffered", "k": 9, "concurrency": 4}}
    with pytest.raises(BadInput, match=r"pace.k = 9: clients of 'scaffold' keep memory, .* only 8 clients; lower pace.k"):
        assemble(resolve({**table, "algorithm": "scaffold"}))
    assemble(resolve({**table, "algorithm": "fedbuff"}))
