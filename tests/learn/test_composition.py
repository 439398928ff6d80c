"""Methods as compositions: each parameter is declared once, where it is used."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.aggregation import Aggregate, Mean
from fedfleet.core.part_facts import RunFacts
from fedfleet.core.parts import Offer
from fedfleet.core.passes import LocalPass
from fedfleet.core.records import ServerState
from fedfleet.core.registry import parameters
from fedfleet.learn.composition import method, split_aggregate, with_extra, with_pass
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.objectives import proximal
from fedfleet.learn.zoo import fedprox


def test_a_methods_signature_is_its_parts_merged():
    both = parameters(fedprox)
    assert set(both) == {"mu", *parameters(fedavg)}
    assert both["lr"] == parameters(fedavg)["lr"]
    assert both["mu"][1].default == parameters(proximal)["mu"][1].default
    assert "algorithm" not in both
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for _, p in both.values())
    assert inspect.getdoc(fedprox).startswith("FedProx")


def test_a_method_hands_each_parameter_to_its_owner():
    built = fedprox(mu=0.25, lr=0.3, batch=5)
    assert built.name == "fedprox"
    local = built.local(0, {})
    assert isinstance(local, LocalPass)
    assert local.batches.size == 5
    assert local.terms[0]({"w": 1.0}, {"w": 0.0}, {})["w"] == 0.25


def test_a_method_refuses_what_neither_part_declares():
    with pytest.raises(TypeError, match="unknown parameter 'mew'"):
        fedprox(mew=1.0)


def test_two_parts_may_not_declare_the_same_parameter():
    def clashing(algorithm, *, lr: float = 0.1):
        return algorithm

    with pytest.raises(TypeError, match="both declare"):
        method(clashing, fedavg)


def test_compositions_compose():
    def louder(algorithm, *, volume: float = 1.0):
        """Louder."""
        return (algorithm, volume)

    twice = method(louder, fedprox)
    assert set(parameters(twice)) == {"volume", "mu", *parameters(fedavg)}
    inner, volume = twice(volume=2.0, mu=0.5, batch=3)
    assert (volume, inner.local(0, {}).terms[0].mu, inner.local(0, {}).batches.size) == (2.0, 0.5, 3)


def test_what_is_left_out_keeps_its_owners_default():
    assert fedprox().local(0, {}).batches == fedavg().local(0, {}).batches
    assert fedprox().local(0, {}).terms[0].mu == parameters(proximal)["mu"][1].default


def test_a_builder_with_positional_parameters_may_be_inside():
    def wrapped(algorithm, note=""):
        return algorithm

    build = method(proximal, wrapped)
    assert {p.kind for p in inspect.signature(build).parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert build(algorithm=fedavg(), mu=0.5).local(0, {}).terms == proximal(fedavg(), mu=0.5).local(0, {}).terms


def test_a_change_is_made_once_for_the_pass_that_clients_share():
    seen = []
    result = with_pass(fedavg(), "", lambda inner: seen.append(inner) or inner)
    assert result.local(0, {}) is result.local(1, {})
    assert len(seen) == 1


def test_a_method_may_have_other_defaults_than_its_inner_one():
    gentle = method(proximal, fedavg, lr=0.01, weigh="one")
    assert parameters(gentle)["lr"][1].default == 0.01
    assert (gentle().local(0, {}).rate, gentle().local(0, {}).weigh) == (0.01, "one")
    assert gentle(lr=0.5).local(0, {}).rate == 0.5
    with pytest.raises(TypeError, match="fedavg has no parameter 'rate'"):
        method(proximal, fedavg, rate=1.0)


def test_both_parts_may_ask_about_the_run():
    def counting(algorithm, *, facts: RunFacts):
        """Counts."""
        return algorithm, facts

    def asking(*, lr: float = 0.1, facts: RunFacts):
        """Asks."""
        return lr, facts

    facts = RunFacts(3, 4, 5)
    assert method(counting, asking)(lr=0.2, facts=facts) == ((0.2, facts), facts)


def test_more_is_offered_beside_the_model_once_for_all():
    calls = []

    def extra(server):
        calls.append(server)
        return {"c": server.params["w"] + 1}

    both = with_extra(with_extra(fedavg(), lambda server: {"a": np.zeros(1)}), extra)
    server, later = ServerState({"w": np.zeros(2)}), ServerState({"w": np.ones(2)})
    first = both.offer(server, 0, {})
    assert first is both.offer(server, 1, {}) and len(calls) == 1
    assert set(first.extra) == {"a", "c"} and first.params is server.params
    assert both.offer(later, 0, {}).extra["c"].tolist() == [2.0, 2.0]


def test_clients_with_offers_of_their_own_keep_them():
    own = replace(fedavg(), offer=lambda server, client, settings: Offer({"w": np.full(1, client)}))
    both = with_extra(own, lambda server: {"a": np.zeros(1)})
    server = ServerState({"w": np.zeros(1)})
    assert [both.offer(server, c, {}).params["w"].tolist() for c in (0, 1, 0)] == [[0], [1], [0]]


def test_what_a_feature_sent_beside_the_model_is_set_apart_in_every_sum():
    tree = {"w": np.zeros(1), "c/w": np.ones(1)}
    rest, mine = split_aggregate(Aggregate(tree, 2.0, 2, {"": Mean(tree, 2.0, 2)}), "c/")
    assert (set(rest.mean), set(rest.sums[""].tree), set(mine)) == ({"w"}, {"w"}, {"w"})
    assert (mine["w"].tolist(), rest.weight, rest.count) == ([1.0], 2.0, 2)
