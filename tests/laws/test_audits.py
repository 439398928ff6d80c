"""Every registered algorithm, policy, selector and edge, on both executors: its run is sealed, audited, quickly audited, resumed.

What is registered later is walked too; whatever cannot be told without training must be listed as believed.
"""

import itertools
from pathlib import Path

import pytest

from fedfleet.app.runs import perform
from fedfleet.app.runs.folder_seals import verify_run
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.spec import resolve
from fedfleet.core.registry import names
from tests.app.runs.flipping import killed_run
from tests.portions import SOAK
from tests.testing.registered import fitting_task

pytestmark = pytest.mark.slow

ROUNDS = 6 if SOAK else 4
BASE = {
    "seed": 4,
    "task": "digits_logreg",
    "world": {"clients": 12, "devices": "spread", "states": {"use": "daily", "sessions": 24, "ready": 0.7}, "model_bytes": 1e7},
    "stop": {"rounds": ROUNDS},
    "run": {"checkpoint_every": 1},
}  # fmt: skip
# What to give policies, where it is not a cohort of four; late reports are folded where a policy can let them in.
POLICIES = {
    "overcommit": {"policy": {"use": "deadline", "cohort": 3, "seconds": 60.0}},
    "semi_async": {"period": 30.0, "concurrency": 4, "refill": 10.0},
    "first_of": {"first": {"use": "timeout", "cohort": 4}, "second": {"use": "deadline", "cohort": 4, "seconds": 90.0}},
    "deadline": {"cohort": 4, "seconds": 60.0, "max_staleness": 2},
    "buffered": {"k": 2, "concurrency": 4, "max_staleness": 5, "lease": 3600.0, "refill": 10.0},
}

# What to give selectors, where their defaults name nobody or say little of them.
SELECTORS = {
    "only": {"ids": [0, 2, 3, 5, 7, 8, 9, 11], "selector": {"use": "flame", "energy": True}},
    "tifl": {"tiers": 3, "mode": "adaptive", "every": 2},
    "explore": {"share": 0.5, "selector": {"use": "power_of_choice", "d": 6}},
    "fair": {"cap": 2.0, "selector": {"use": "explore", "share": 0.3}},
}

LIGHT_WORK = {"fedrep": {"head_epochs": 1}}  # so that someone makes it within a minute
# Of these nobody makes it in the first rounds, or the same part of a model has to come again.
LATE = ("ditto", "fedkd", "scaffold", "heterofl", "fjord", "timelyfl")


# Of methods that train less than the whole model, whoever asks for parts of it.
CHOSEN = {"timelyfl": {"choose": {"use": "timely", "seconds": 15.0, "least": 0.001}}}
# What may be put around any algorithm, with what it cannot do without.
AROUND = {"fold": "folds", "attack": "attacks", "private": "privacy"}
NEEDED = {"gaussian": {"cohort": 4}, "tree": {"cohort": 4}, "krum": {"f": 0}, "multi_krum": {"f": 0}}

# What devices draw, by kind where that is asked for.
ENERGY = {
    "per_kind": {"watts": {"slow": {"compute": 2.0}, "fast": {"compute": 6.5}}},
    "energy_file": {"path": "watts.json"},
    "carbon": {"energy": {"use": "phones", "link": "4g"}, "swing": 100.0},
}


FAULTS = {"all_of": {"faults": ["lossy", "crashes", "delayed", "repeated", "slowed", {"use": "outages", "rate": 0.5}]}}


def paced(name):
    return {"use": name, **POLICIES.get(name, {"cohort": 4})}


def cases():
    """Algorithms and policies, then selectors and edges beside the plain method; each on every executor that trains here.

    Every algorithm meets one policy and the plain one all of them; a soak lets everyone meet everyone, and longer.
    """
    result = {
        f"{a} {p}": {
            "algorithm": {"use": a, **LIGHT_WORK.get(a, {})},
            "pace": paced(p),
            "task": fitting_task(a),
            "stop": {"rounds": 6 if a in LATE else ROUNDS},
            **CHOSEN.get(a, {}),
        }
        for a, p in itertools.product(names("algorithms"), names("policies"))
        if p == "deadline" or a == "fedavg" or SOAK
    }
    # Selectors need rounds to go by, and some of what goes wrong comes late.
    longer = {"pace": paced("deadline"), "stop": {"rounds": 6}}
    result |= {f"fedavg {s}": {"choose": {"use": s, **SELECTORS.get(s, {})}, **longer} for s in names("selectors")}
    coded = {"use": "fedavg", "up": [{"use": "topk", "share": 0.3}, "int4", "gzip"], "down": ["int8"], "feedback": True}
    result["codecs"] = {"algorithm": coded, "pace": paced("deadline")}
    for edge in names("edges"):
        pace = {"use": "readiness", "cohort": 2, "ready_share": 0.5}
        result[f"edge {edge}"] = {"edge": edge, "pace": pace, "stop": {"rounds": 4}}
    for name in names("energy"):
        energy = {"use": name, **ENERGY.get(name, {})}
        result[f"energy {name}"] = {"pace": paced("deadline"), "world": {**BASE["world"], "energy": energy}}
    for key, name in ((key, name) for key, kind in AROUND.items() for name in names(kind)):
        algorithm = {"use": "fedavg", key: {"use": name, **NEEDED.get(name, {})}}
        result[f"{key} {name}"] = {"algorithm": algorithm, "pace": paced("readiness")}
    many = [(f"{name} {e}", more, e) for name, more in result.items() for e in ("inline", "stacked")]
    # What goes wrong is the same whoever trains.
    faulty = {f"faults {name}": {"use": name, **FAULTS.get(name, {})} for name in names("faults")}
    many += [(n, {**longer, "world": {"faults": fault}}, "inline") for n, fault in faulty.items()]
    beside = {"world": {"faults": faulty["faults all_of"]}, "pace": {"use": "deadline", "cohort": 3, "seconds": 3000.0}}
    return [*many, ("edge under faults inline", {"edge": "hierfl", **beside}, "inline")]


CASES = cases()
# What chooses, paces, draws energy or folds is the same beside both executors, and prompts of both kinds train the same way.
ON_STACKS = {
    "codecs", "fedavg buffered", "fedavg uniform", "private gaussian", "energy phones", "attack scaled", "fold median",
}  # fmt: skip


def in_every_run(name):
    """Whether `make test` tries this case too."""
    what, _, execute = name.rpartition(" ")
    first, _, second = what.partition(" ")
    return execute != "stacked" or what in ON_STACKS or first == "edge" or (second == "deadline" and first != "biasprompt")


@pytest.mark.parametrize(
    ("name", "more", "execute"),
    [pytest.param(*c, id=c[0], marks=() if in_every_run(c[0]) and not SOAK else pytest.mark.soak) for c in CASES],
)
def test_what_is_registered_can_be_audited_and_resumed(name, more, execute, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("watts.json").write_text('{"format": "fedfleet/energy@1", "watts": {"slow": {"compute": 3}}}')
    world = {**BASE["world"], **more.get("world", {}), **({"users": {"use": "households"}} if "edge" in more else {})}
    spec = {**BASE, **more, "world": world, "run": {**BASE["run"], "execute": execute}}
    straight = perform(resolve(spec), tmp_path / "straight")
    assert straight.metrics["commits"], "a run without a model proves nothing"
    result = replay_run(straight.out)
    assert result["not_verified"] == ["wall_seconds", "remarks", "checkpoints"]
    quick = replay_run(straight.out, quick=True)
    assert quick["digest"] == straight.metrics["digest"] and {"models", "scores"} <= set(quick["not_verified"])
    assert verify_run(straight.out)["sealed"]
    if execute == "inline":  # stacked forms are chosen by measuring, and may differ between two runs
        killed_run(spec, tmp_path / "killed", 1)
        assert perform(resolve(spec), tmp_path / "killed", resume=True).metrics["digest"] == result["digest"]
