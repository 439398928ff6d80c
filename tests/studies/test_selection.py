"""The study of selectors and policies, on a tiny scale."""

import json

import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.core.registry import names
from studies import selection
from studies.selection import FLEETS, POLICIES, SCALES, SELECTORS, Case, Fleet, grid, main, outcome_of, spec_of
from tests.real import needs_data

pytestmark = pytest.mark.slow


def test_the_grid_has_every_pair_on_every_fleet_for_every_seed():
    quick, full = grid("quick"), grid("full")
    assert len(quick) == len(set(quick)) == 2 * 3 * len(SELECTORS) * len(POLICIES)
    assert len(full) == len(set(full)) == 2 * 4 * 5 * len(SELECTORS) * len(POLICIES)
    assert {c.seed for c in quick[: len(quick) // 3]} == {0}, "stopped early, it has all pairs with fewer seeds"
    assert {c.pair for c in quick} <= {c.pair for c in full}, "quick runs are part of full ones"


@pytest.mark.parametrize("policy", [p for p in POLICIES if p in names("policies")])
@pytest.mark.parametrize("selector", [s for s in SELECTORS if s in names("selectors")])
def test_pairs_that_are_here_make_a_valid_spec(selector, policy):
    resolve(spec_of(Case("digits", "embedded, severe", selector, policy, 0)))


@needs_data
@pytest.mark.parametrize("fleet", [f for f in FLEETS if f.startswith("traces")])
def test_fleets_of_real_traces_can_be_made(fleet):
    assert assemble(resolve(spec_of(Case("digits", fleet, "uniform", "deadline", 0)))).plan.clients == 100


@pytest.fixture
def tiny(monkeypatch):
    """Two selectors, one of which there is not, under one policy on a fleet that has minutes."""
    here = FLEETS["embedded, mild"]
    monkeypatch.setattr(selection, "SELECTORS", {"uniform": {"use": "uniform"}, "nobody": {"use": "nobody"}})
    monkeypatch.setattr(selection, "POLICIES", {"deadline": POLICIES["deadline"]})
    monkeypatch.setitem(FLEETS, "embedded, mild", Fleet(here.world, here.alpha, here.model_bytes, 0.15))
    monkeypatch.setitem(SCALES, "quick", (("digits",), ("embedded, mild",), 2))


def test_one_command_makes_the_table_and_a_second_one_only_reads(tiny, tmp_path, capsys):
    assert main(["--workers", "1", "--out", str(tmp_path), "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    table, folders = (tmp_path / "table.csv").read_text(), sorted((tmp_path / "runs").iterdir())
    assert first["runs"] + first["cached"] == 2 == len(folders)
    text = (tmp_path / "table.md").read_text()
    assert "| nobody | (1) |" in text and "unknown selector 'nobody'" in text
    (folders[0] / "seal.json").unlink()  # as if it had been interrupted
    assert main(["--workers", "1", "--out", str(tmp_path), "--json"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert second["cached"] >= 1 and second["runs"] + second["cached"] == 2
    assert (tmp_path / "table.csv").read_text() == table, "what was interrupted is made again, the same"


def test_the_cost_is_said_before_the_rest_begins(tiny, tmp_path, capsys):
    main(["--workers", "1", "--out", str(tmp_path), "--json"])
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("4 runs; samples took") and "minutes with 1 workers" in said[0] and said[1].startswith("1/4")


def test_a_run_that_fails_is_not_silent(tiny, tmp_path, monkeypatch, capsys):
    from fedfleet.app import runs
    from fedfleet.core.errors import RunFailed

    def broken(*_):
        raise RunFailed("the disk is gone")

    monkeypatch.setattr(runs, "perform", broken)
    case = Case("digits", "embedded, mild", "uniform", "deadline", 0)
    assert outcome_of(case, tmp_path).failed == "the disk is gone"
    assert main(["--workers", "1", "--out", str(tmp_path), "--json"]) == 1
    assert "the disk is gone" in (tmp_path / "table.md").read_text()
