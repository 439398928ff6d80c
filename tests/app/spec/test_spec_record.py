"""The record of a spec: what its digest covers, and that its TOML reads back."""

import tomllib

from fedfleet.app.spec import resolve


def test_the_resolved_spec_reads_back_to_itself():
    spec = resolve({"seed": 4, "algorithm": {"use": "fedprox", "mu": 1}, "override": [{"clients": [1], "algorithm": {"lr": 1}}]})
    back = resolve(tomllib.loads(spec.toml()))
    assert back.digest == spec.digest
    assert back.table() == spec.table()


def test_the_digest_names_what_was_asked_not_how():
    plain = resolve({})
    assert resolve({"run": {"threads": 2, "checkpoint_every": 7}}).digest == plain.digest
    assert resolve({"stop": {"rounds": 100}}).digest == plain.digest, "a default that is written out is no change"
    assert resolve({"seed": 1}).digest != plain.digest
    assert resolve({"pace": {"cohort": 5}}).digest != plain.digest


def test_what_is_not_set_is_left_out_of_the_table():
    table = resolve({}).table()
    assert "override" not in table and "edge" not in table
    assert "model_bytes" not in table["world"] and "ray_address" not in table["run"]
    assert resolve({"world": {"model_bytes": 1e6}}).table()["world"]["model_bytes"] == 1e6


def test_codecs_with_settings_that_are_not_set_read_back():
    spec = resolve({"algorithm": {"up": [{"use": "lowrank", "rank": 2}, "int8"], "down": ["gzip"], "feedback": True}})
    back = resolve(tomllib.loads(spec.toml()))
    assert back == spec and back.digest == spec.digest
