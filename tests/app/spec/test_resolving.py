"""The spec: defaults, overrides, digest, and refusals that name the cure."""

import tomllib

import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import load_spec, resolve, with_words
from fedfleet.core.errors import BadInput


def test_an_empty_spec_has_every_default():
    spec = resolve({})
    assert spec.world["devices"]["use"] == "homogeneous"
    assert spec.world["states"]["use"] == "always_on"
    assert (spec.choose["use"], spec.pace["use"], spec.algorithm["use"]) == ("uniform", "readiness", "fedavg")
    assert spec.run["execute"] == "auto"
    assert spec.stop["rounds"] == 100


def test_the_resolved_spec_reads_back_to_itself():
    spec = resolve(
        {"seed": 4, "algorithm": {"use": "fedprox", "mu": 1}, "override": [{"clients": [1], "algorithm": {"lr": 1}}]}
    )
    back = resolve(tomllib.loads(spec.toml()))
    assert back.digest == spec.digest
    assert back.table() == spec.table()


def test_the_digest_names_what_was_asked_not_how():
    plain = resolve({})
    assert resolve({"run": {"threads": 2, "checkpoint_every": 7}}).digest == plain.digest
    assert resolve({"stop": {"rounds": 100}}).digest == plain.digest, "a default that is written out is no change"
    assert resolve({"seed": 1}).digest != plain.digest
    assert resolve({"pace": {"cohort": 5}}).digest != plain.digest


def test_words_override_by_dotted_key():
    table = with_words(
        {"pace": {"cohort": 5}}, ["pace.cohort=7", "algorithm.use=fedprox", "world.data.alpha=0.5", "seed=3"]
    )
    assert table == {
        "pace": {"cohort": 7},
        "algorithm": {"use": "fedprox"},
        "world": {"data": {"alpha": 0.5}},
        "seed": 3,
    }


def test_a_part_may_hold_a_part():
    spec = resolve({"pace": {"use": "overcommit", "policy": {"use": "deadline", "cohort": 5, "seconds": 9}}})
    assert spec.pace["policy"]["seconds"] == 9.0
    assert assemble(spec).plan.pace.name == "overcommit(deadline)"


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"algorithm": {"use": "fedavgg"}}, "did you mean 'fedavg'"),
        ({"pace": {"cohrt": 5}}, "did you mean 'cohort'"),
        ({"wrld": {}}, "did you mean 'world'"),
        ({"world": {"devces": {}}}, "did you mean 'devices'"),
        ({"pace": {"use": "deadline", "seconds": -1.0}}, "pace.seconds = -1.0.*greater than 0"),
        ({"pace": {"cohort": "five"}}, "pace.cohort = 'five'.*integer"),
        ({"pace": {"cohort": True}}, "integer"),
        ({"pace": {"cohort": 2.5}}, "integer"),
        ({"pace": {"use": "overcommit"}}, "needs the key 'policy'"),
        ({"pace": {"use": "overcommit", "policy": 3}}, "not a table"),
        ({"algorithm": 3}, "algorithm: 3 is not a table"),
        ({"algorithm": {"optimiser": "sdg"}}, "'sgd', 'adam' or 'adamw'"),
        ({"stop": {"virtual_seconds": float("inf")}}, "less than inf"),
        ({"stop": {"patience": 0}}, "greater than or equal to 1"),
        ({"seed": -1}, "seed = -1"),
        ({"seed": "x"}, "seed = 'x'"),
        ({"world": {"split": [6, 2]}}, "three numbers"),
        ({"override": {"clients": [1]}}, "two brackets"),
        ({"override": [{"algorithm": {"lr": 0.1}}]}, "neither clients nor kinds"),
        ({"override": [{"clients": [1]}]}, "changes nothing"),
        ({"override": [{"clients": [1], "algorithm": {"lrr": 0.1}}]}, "did you mean 'lr'"),
        ({"override": [{"clients": [1], "algorithm": {"use": "fedprox"}}]}, "not in the algorithm itself"),
        ({"run": {"execute": "stakced"}}, "run.execute"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(table, says):
    with pytest.raises(BadInput, match=says) as refused:
        resolve(table)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"pace": {"cohort": 101}}, "larger than the fleet of 100"),
        ({"world": {"clients": 400}}, "use fewer clients"),
        ({"world": {"data": {"use": "by_owner"}}}, "does not say; use dirichlet"),
        ({"world": {"devices": {"use": "device_file", "path": "none.json"}}}, "no file none.json"),
        ({"override": [{"clients": [100], "algorithm": {"lr": 0.1}}]}, "no client 100"),
        ({"override": [{"kinds": ["b"], "algorithm": {"lr": 0.1}}]}, "no device is of kind 'b'"),
    ],
)
def test_what_does_not_fit_together_is_refused(table, says):
    with pytest.raises(BadInput, match=says):
        assemble(resolve(table))


def test_files_that_cannot_be_read(tmp_path):
    for path, says in ((tmp_path / "none.toml", "no spec file"), (tmp_path, "is a folder")):
        with pytest.raises(BadInput, match=says):
            load_spec(path)
    broken = tmp_path / "broken.toml"
    broken.write_text("seed = = 3")
    with pytest.raises(BadInput, match="not valid TOML"):
        load_spec(broken)
    with pytest.raises(BadInput, match="write key=value"):
        load_spec(_fine(tmp_path), ["cohort"])


def test_overrides_reach_the_clients_they_name():
    kinds = {"devices": {"use": "spread"}}
    spec = resolve(
        {
            "world": kinds,
            "override": [{"clients": [3], "algorithm": {"epochs": 9}}, {"kinds": ["slow"], "algorithm": {"epochs": 4}}],
        }
    )
    setup = assemble(spec)
    slow = [i for i, kind in enumerate(setup.world.devices.kinds) if kind == "slow"]
    epochs = [setup.plan.algorithm.local(c).batches.epochs for c in range(100)]
    assert len(slow) > 20
    assert all(epochs[c] == 4 for c in slow)
    assert epochs[3] == (4 if 3 in slow else 9)
    assert sum(e == 2 for e in epochs) == 100 - len({3, *slow})


def _fine(folder):
    path = folder / "fine.toml"
    path.write_text("seed = 1")
    return path
