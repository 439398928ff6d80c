"""What goes around any algorithm: nothing asked, nothing changed; all of it together, in its order; keys of every spec."""

from fedfleet.app.spec import resolve
from fedfleet.core.labels import RunFacts
from fedfleet.core.registry import names
from fedfleet.learn.attacks import sign_flip
from fedfleet.learn.features import featured
from fedfleet.learn.private import gaussian
from fedfleet.learn.robust import norm_bound
from fedfleet.learn.zoo import fedavg


def test_without_anything_it_is_the_algorithm_itself():
    algorithm = fedavg()
    assert featured(algorithm) is algorithm


def test_attackers_come_before_what_protects():
    attack = sign_flip(facts=RunFacts(8, 3, 5))
    both = featured(fedavg(), fold=norm_bound(0.5), attack=attack, private=gaussian(cohort=4, clip=1.0))
    assert (both.fold.clip, both.fold.denominator) == (0.5, 4.0)
    assert len(both.local(0, {}).after) == 1


def test_every_algorithm_of_a_spec_takes_them():
    for name in names("algorithms"):
        table = {"use": name, "attack": "sign_flip", "fold": "mean"}
        found = resolve({"algorithm": table}).algorithm
        assert found["attack"] == {"use": "sign_flip", "share": 0.2, "factor": 4.0}
        assert found["private"] is None
