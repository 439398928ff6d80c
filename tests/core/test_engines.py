"""The list of engines."""

import pytest

from fedfleet.core import engines
from fedfleet.core.engines import ENGINES, require_engine
from fedfleet.core.errors import BadInput


def test_an_engine_is_refused_only_where_its_package_is_missing(monkeypatch):
    monkeypatch.setattr(engines, "find_spec", lambda name: object())
    for name in ENGINES:
        require_engine(name)
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    require_engine("numpy")  # without numpy there is no FedFleet
    for name in set(ENGINES) - {"numpy"}:
        with pytest.raises(BadInput, match=f"the engine {name} needs the package"):
            require_engine(name)
