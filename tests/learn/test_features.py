"""What may be put around any algorithm: it reaches every one of them, inline and stacked, or is refused in a sentence."""

import pytest

from fedfleet.app.spec.tables import build_part, resolve_part
from fedfleet.core.errors import BadInput
from fedfleet.core.labels import RunFacts
from fedfleet.core.registry import names
from fedfleet.learn.features import featured
from fedfleet.learn.zoo import fedavg, fedrep, ft
from fedfleet.runtime.executors.inline import inline
from fedfleet.runtime.executors.stacked.executor import stacked
from fedfleet.testing import check_algorithm
from tests.learn.digits import task
from tests.mutations.specs import NEEDED
from tests.testing.registered import built

CODED = {"up": ["int4"], "down": ["bf16"], "feedback": True}


def test_without_any_of_it_the_algorithm_is_itself():
    plain = fedavg()
    assert featured(plain) is plain
    assert featured(plain, up=[], down=[], feedback=False) is plain


@pytest.mark.parametrize("name", names("algorithms"))
@pytest.mark.parametrize("execute", [inline, stacked])
def test_codecs_go_around_every_algorithm(name, execute):
    table = resolve_part("algorithms", {"use": name, **NEEDED.get(name, {}), **CODED}, "algorithm")
    check_algorithm(build_part("algorithms", table, {RunFacts: RunFacts(3, 7, 5)}), task(), execute(task()))


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
