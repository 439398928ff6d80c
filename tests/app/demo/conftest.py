"""A demo small enough for tests: one fleet, few ways, some minutes; trained in this process."""

from dataclasses import replace

import pytest

from fedfleet.app.demo import demo_study
from fedfleet.app.demo.demo_study import WAITING, WITH_DEADLINE
from fedfleet.executors import worker_pool


@pytest.fixture
def short(monkeypatch):
    ways, methods = (WAITING, WITH_DEADLINE, "FedBuff"), ("FedAvg", "ShuffleFL")
    ends = {"stop.rounds": 3, "stop.virtual_seconds": 3600.0}
    names = [f"{way}, mild" for way in ways]
    arms = tuple(replace(a, settings={**a.settings, **ends}) for a in demo_study.STUDY.arms if a.name in names)
    users = demo_study.USER_STUDY
    base = {**users.base, "stop": {**users.base["stop"], "virtual_seconds": 60.0}}
    user_arms = tuple(a for a in users.arms if a.name in methods)
    monkeypatch.setattr(demo_study, "STUDY", replace(demo_study.STUDY, arms=arms, seeds=(7, 8)))
    monkeypatch.setattr(demo_study, "USER_STUDY", replace(users, arms=user_arms, seeds=(7, 8), base=base))
    monkeypatch.setattr(demo_study, "FLEETS", {"mild": demo_study.FLEETS["mild"]})
    monkeypatch.setattr(demo_study, "WAYS", {way: demo_study.WAYS[way] for way in ways})
    monkeypatch.setattr(demo_study, "METHODS", {way: demo_study.METHODS[way] for way in methods})
    monkeypatch.setattr(worker_pool, "processor_count", lambda: 1)
