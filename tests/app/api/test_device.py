"""`fedfleet device`: what it refuses before it calls anybody."""

import pytest

from fedfleet.app.api.device import device
from fedfleet.core import engines
from fedfleet.core.errors import BadInput


def test_a_misspelt_engine_and_one_whose_package_is_missing_are_refused(monkeypatch):
    with pytest.raises(BadInput, match="'nump' is not known; did you mean 'numpy'"):
        device(engine="nump")
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"the engine torch needs the package PyTorch, which is not installed; .*fedfleet\[train\]"):
        device(engine="torch")


def test_an_address_is_checked_before_anything_is_stored(tmp_path):
    with pytest.raises(BadInput, match="nowhere"):
        device(server="nowhere", engine="numpy", store=tmp_path / "store")
    assert not (tmp_path / "store").exists()
