"""What may be put around any algorithm: codecs around every registered one, inline and stacked."""

import pytest

from fedfleet.app.spec.tables import build_part, resolve_part
from fedfleet.core.labels import RunFacts
from fedfleet.core.registry import names
from fedfleet.learn.averaging import fedavg
from fedfleet.learn.features import featured
from fedfleet.runtime.executors.inline import inline
from fedfleet.runtime.executors.stacked.executor import stacked
from fedfleet.testing import check_algorithm
from tests.learn.digits import task
from tests.mutations.specs import NEEDED

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
