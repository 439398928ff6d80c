"""What a kit does beside what sheets prove: rows, shares, versions."""

import numpy as np
import pytest

from fedfleet.core.errors import RunFailed
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.network.device.client_runtime import Assignment, model_of, rows_of, train_task
from tests.network.device.fake import toy_kit

W = {"w": np.ones(3, np.float32)}


def test_a_task_trains_on_its_share_of_the_rows_of_its_round():
    kit = toy_kit()
    assert rows_of(kit, Assignment(0)).tolist() == [0, 1, 2, 3, 4]
    assert rows_of(kit, Assignment(0, share=0.5)).tolist() == [0, 1, 2]
    assert rows_of(kit, Assignment(0, rows=np.array([7, 8]), share=0.5)).tolist() == [7]
    for odd in ([9], [-1]):
        with pytest.raises(RunFailed, match="rows that the data of this device does not have"):
            rows_of(kit, Assignment(0, rows=np.array(odd)))


def test_training_is_the_same_every_time():
    kit = toy_kit()
    one, two = (train_task(kit, Assignment(3), pack_tree(W), {"slot": {"w": np.float32(2)}}) for _ in range(2))
    assert one.payload == two.payload
    assert np.array_equal(unpack_tree(one.payload)["w"], np.full(3, 6, np.float32))


def test_a_model_that_is_judged_is_the_servers_in_the_order_of_the_run():
    kit = toy_kit()
    assert list(model_of(kit, Assignment(0), pack_tree({"a": W["w"], **W}), {})) == ["w"]
