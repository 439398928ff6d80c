"""Per-client variants of one algorithm: the listed clients are offered, train and cost what their variant says."""

from dataclasses import replace

import numpy as np

from fedfleet.core.parts import Offer
from fedfleet.core.records import Assignments, Cost, ServerState, whole_work
from fedfleet.core.task_cost import cost_of
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.override import with_variants
from fedfleet.learn.zoo import ft
from tests.learn.digits import CLIENTS, models, task, trained

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
