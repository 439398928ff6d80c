"""Names of models that are found on first use: equal to the string in every way that matters."""

import threading

import numpy as np

from fedfleet.core.model_names import ModelName, model_name
from fedfleet.core.trees import content_hash

LARGE = {"w": np.arange(1 << 15, dtype=np.float32)}


def test_a_small_model_is_named_at_once_and_a_large_one_on_first_use():
    small = {"w": np.zeros(4, np.float32)}
    assert model_name(small) == content_hash(small)
    assert isinstance(model_name(small), str)
    name = model_name(LARGE)
    assert isinstance(name, ModelName)
    assert not name.is_computed
    assert str(name) == content_hash(LARGE)
    assert name.is_computed


def test_it_compares_hashes_and_prints_as_the_string():
    name, text = ModelName(LARGE), content_hash(LARGE)
    assert name == text
    assert text == name
    assert name == ModelName(dict(LARGE))
    assert name != "another"
    assert name != ModelName({"w": LARGE["w"] + 1})
    assert (hash(name), repr(name), f"{name}") == (hash(text), repr(text), text)
    assert {name: 1}[text] == 1
    assert name != 3


def test_many_threads_find_the_same_name():
    name, result = ModelName(LARGE), []
    threads = [threading.Thread(target=lambda: result.append(str(name))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(result) == {content_hash(LARGE)}
