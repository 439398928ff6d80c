"""A demo small enough for tests: one fleet, few ways, some minutes; trained in this process."""

from dataclasses import replace

import pytest

from fedfleet.app.demo import demo_jobs, demo_runs, demo_users
from fedfleet.app.demo.demo_runs import WAITING, WITH_DEADLINE


@pytest.fixture
def short(monkeypatch):
    few = {name: demo_runs.WAYS[name] for name in (WAITING, WITH_DEADLINE, "FedBuff")}
    ends = {"rounds": 3, "virtual_seconds": 3600.0}
    monkeypatch.setattr(demo_runs, "WAYS", {n: replace(w, table={**w.table, "stop": ends}) for n, w in few.items()})
    monkeypatch.setattr(demo_runs, "FLEETS", {"mild": demo_runs.FLEETS["mild"]})
    monkeypatch.setattr(demo_runs, "SEEDS", (7, 8))
    monkeypatch.setattr(demo_users, "METHODS", {n: demo_users.METHODS[n] for n in ("FedAvg", "ShuffleFL")})
    monkeypatch.setattr(demo_users, "MINUTES", 1)
    monkeypatch.setattr(demo_jobs, "workers", lambda: 1)
