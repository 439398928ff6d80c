"""A demo small enough for tests: one fleet, few ways, some minutes; trained in this process."""

from dataclasses import replace

import pytest

from fedfleet.app.demo import fleets, running, users
from fedfleet.app.demo.fleets import DEADLINED, WAITING


@pytest.fixture
def short(monkeypatch):
    few = {name: fleets.WAYS[name] for name in (WAITING, DEADLINED, "FedBuff")}
    ends = {"rounds": 3, "virtual_seconds": 3600.0}
    monkeypatch.setattr(fleets, "WAYS", {n: replace(w, table={**w.table, "stop": ends}) for n, w in few.items()})
    monkeypatch.setattr(fleets, "FLEETS", {"mild": fleets.FLEETS["mild"]})
    monkeypatch.setattr(fleets, "SEEDS", (7, 8))
    monkeypatch.setattr(users, "METHODS", {n: users.METHODS[n] for n in ("FedAvg", "ShuffleFL")})
    monkeypatch.setattr(users, "MINUTES", 1)
    monkeypatch.setattr(running, "workers", lambda: 1)
