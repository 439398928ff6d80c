"""Methods as compositions: each parameter is declared once, where it is used."""

import inspect

import pytest

from fedfleet.core.passes import LocalPass
from fedfleet.core.registry import parameters
from fedfleet.learn.averaging import fedavg
from fedfleet.learn.compose import method
from fedfleet.learn.terms import proximal
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


def test_a_builder_with_positional_parameters_can_be_wrapped():
    def inner(lr: float, epochs: int = 1):
        """An own algorithm."""
        return fedavg(lr=lr, epochs=epochs)

    build = method(proximal, inner)
    assert build(lr=0.3, mu=0.5).local(0, {}).rate == 0.3
    assert set(parameters(build)) == {"lr", "epochs", "mu"}
