"""What may be put around any algorithm: it reaches every one of them, inline and stacked, or is refused in a sentence."""

import pytest

from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.labels import RunFacts
from fedfleet.core.registry import names
from fedfleet.learn.attacks import sign_flip
from fedfleet.learn.features import featured
from fedfleet.learn.private import gaussian
from fedfleet.learn.robust import norm_bound
from fedfleet.learn.zoo import fedavg, fedrep, ft
from fedfleet.runtime.executors.inline import inline
from fedfleet.runtime.executors.stacked.executor import stacked
from fedfleet.testing import check_algorithm
from tests.testing.registered import assembled, built

CODED = {"up": ["int4"], "down": ["bf16"], "feedback": True}


def test_without_any_of_it_the_algorithm_is_itself():
    plain = fedavg()
    assert featured(plain) is plain
    assert featured(plain, up=[], down=[], feedback=False) is plain


@pytest.mark.parametrize("name", [n for n in names("algorithms") if n != "centralized"])
@pytest.mark.parametrize("execute", [inline, stacked])
def test_codecs_go_around_every_algorithm(name, execute):
    # What was lost of a slice cannot be added to the next one, of another width.
    setup = assembled(name, **{**CODED, "feedback": name != "fjord"})
    check_algorithm(setup.plan.algorithm, setup.task, execute(setup.task))


def test_keeping_and_tuning_go_together_and_keep_the_name():
    found = featured(fedavg(lr=0.3), keep="head.*", fine_tune=3)
    assert found.name == "fedavg"
    assert found.local(0, {}).keep("head.bias") and not found.local(0, {}).keep("body.bias")
    assert (found.tune(0).batches.epochs, found.tune(0).rate, found.tune(0).keep) == (3, 0.3, None)


def test_what_is_kept_twice_is_kept_once_and_both_patterns_count():
    found = featured(fedrep(), keep="norm.*").local(0, {})
    assert [found.keep(n) for n in ("head.bias", "norm.bias", "body.bias")] == [True, True, False]


def test_tuning_twice_is_refused():
    with pytest.raises(BadInput, match=r"'ft' tunes before it judges already; set algorithm.tune_epochs"):
        featured(ft(), fine_tune=2)


@pytest.mark.parametrize("name", names("algorithms"))
def test_around_any_algorithm(name):
    for around in ({"keep": "head.*"}, {"fine_tune": 2}):
        if (around.get("fine_tune") and built("algorithms", name).tune is not None) or name == "centralized":
            with pytest.raises(BadInput, match=name):
                featured(built("algorithms", name), **around)
        else:
            assert featured(built("algorithms", name), **around).name == name


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
