import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.tensor_format import unpack_tree
from fedfleet.network.stress.stress_plan import STEP, Dummy, dummy_params, dummy_plan, dummy_update


@pytest.mark.parametrize("nbytes", [16, 20, 100_000, 13_310_000])
def test_a_model_has_the_bytes_that_were_asked_for(nbytes):
    params = dummy_params(nbytes)
    assert sum(leaf.nbytes for leaf in params.values()) == nbytes
    assert all(leaf.dtype == np.float32 for leaf in params.values())


@pytest.mark.parametrize("nbytes", [0, 12, 101])
def test_other_sizes_are_refused(nbytes):
    with pytest.raises(BadInput, match="multiple of 4"):
        dummy_params(nbytes)


def test_an_update_is_like_the_model_and_may_be_folded():
    plan = dummy_plan(Dummy(5, 4000, 2))
    result = unpack_tree(dummy_update(4000))
    assert {n: leaf.shape for n, leaf in result.items()} == {n: leaf.shape for n, leaf in plan.params.items()}
    assert all((leaf == np.float32(STEP)).all() for leaf in result.values())
    assert set(plan.algorithm.fold.like(plan.algorithm.init(plan.params))) == set(result)


def test_rounds_are_over_all_clients_or_over_a_buffer():
    sync, buffered = Dummy(50, 400, 3), Dummy(50, 400, 3, "fedbuff")
    assert (sync.per_commit, buffered.per_commit) == (50, 5)
    assert (dummy_plan(sync).pace.name, dummy_plan(sync).pace.cohort) == ("readiness", 50)
    assert (dummy_plan(buffered).pace.name, dummy_plan(buffered).pace.holds) == ("buffered", 5)
    assert Dummy(3, 400, 3, "fedbuff").per_commit == 1
    assert dummy_plan(sync).stop.commits == 3


def test_one_client_is_a_fleet_too():
    assert dummy_plan(Dummy(1, 400, 3)).pace.cohort == 1
