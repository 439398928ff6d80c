"""What decides bits: written down, adopted by whoever resumes, refused where it is not."""

from dataclasses import replace

import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.runs import perform
from fedfleet.app.runs.conditions import (
    adopt_conditions,
    local_conditions,
    missing_condition,
    single_machine_spec,
    stored_conditions,
    write_conditions,
)
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.store.seals import identity
from tests.app.runs.flipping import killed_run
from tests.app.runs.tampering import SPEC


def spec_with(**run):
    return resolve({**SPEC, "run": {"checkpoint_every": 2, **run}})


def test_conditions_come_back_and_are_here(tmp_path):
    for execute in ("inline", "stacked"):
        result = local_conditions(assemble(spec_with(execute=execute)))
        write_conditions(tmp_path, result)
        assert stored_conditions(tmp_path) == result and missing_condition(result) is None
        assert result.kernel == execute and (result.stacked_form() is None) == (execute == "inline")


def test_what_is_not_here_is_named():
    result = local_conditions(assemble(spec_with()))
    assert missing_condition(replace(result, versions={**result.versions, "torch": "1.0"})).startswith("torch 1.0 (here: ")
    assert missing_condition(replace(result, versions={"jax": "1"})) == "jax 1 (here: none)"
    assert "the processor 'abacus'" in missing_condition(replace(result, processor="abacus"))
    assert single_machine_spec(spec_with(), replace(result, device="cuda", processor="abacus")).run["device"] == "cpu"
    assert single_machine_spec(spec_with(), replace(result, execute="ray", ray_execute="stacked")).run["execute"] == "stacked"


def test_what_decides_bits_is_adopted_and_said():
    result = local_conditions(assemble(spec_with()))
    spec, remarks = adopt_conditions(spec_with(threads=2, execute="stacked"), result)
    assert (spec.run["threads"], spec.run["execute"]) == (1, "auto") and len(remarks) == 2
    assert "run.threads = 2 was given, but the run started with 1" in " ".join(remarks)
    spec, remarks = adopt_conditions(spec_with(execute="ray"), result)  # a cluster computes the same bits
    assert spec.run["execute"] == "ray" and remarks == []


def test_a_run_resumes_as_it_began_whatever_is_asked_now(tmp_path, capsys):
    straight = perform(spec_with(), tmp_path / "straight")
    killed_run({**SPEC, "run": {"checkpoint_every": 2}}, tmp_path / "out", 3)
    again = perform(spec_with(threads=2, execute="stacked"), tmp_path / "out", resume=True)
    assert again.metrics["digest"] == straight.metrics["digest"]
    assert "keeps it" in capsys.readouterr().err


def test_a_run_is_not_resumed_with_other_versions(tmp_path, monkeypatch):
    killed_run(SPEC, tmp_path / "out", 3)
    monkeypatch.setattr("fedfleet.app.runs.conditions._versions", lambda execute: {"numpy": "0.1"})
    before = identity(tmp_path / "out")
    with pytest.raises(BadInput, match=r"was started with numpy .* could change its results in the last bits"):
        perform(spec_with(), tmp_path / "out", resume=True)
    assert identity(tmp_path / "out") == before


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"format": "fedfleet/executor@1"}'])
def test_conditions_that_are_none_are_one_sentence(tmp_path, body):
    (tmp_path / "executor.json").write_bytes(body)
    with pytest.raises(BadInput, match="missing or damaged"):
        stored_conditions(tmp_path)
