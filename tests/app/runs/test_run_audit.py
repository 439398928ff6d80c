"""Auditing run folders."""

import pytest

from fedfleet.app.runs import perform
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.simulation.audit import audit_by_rerun
from fedfleet.store import journal as journals
from fedfleet.store.files import load_tree, save_tree
from tests.app.runs.tampering import reseal
from tests.app.users import Watched, alphas_of, spec_with
from tests.simulation.test_audit import numbered

pytestmark = pytest.mark.slow


def test_a_run_is_rebuilt_from_its_journal(tiny_run):
    got = replay_run(tiny_run.out)
    assert got["ok"] and got["ended"]
    assert got["digest"] == tiny_run.metrics["digest"]
    assert got["commits"] == 6 and {"models", "model.safetensors"} <= set(got["verified"])


def test_a_model_that_was_exchanged_is_found_out(run_copy):
    params, _ = load_tree(run_copy / "model.safetensors")
    name = next(iter(params))
    save_tree(run_copy / "model.safetensors", {**params, name: params[name] + 1})
    with pytest.raises(RunFailed, match=r"model.safetensors was changed after it was sealed"):
        replay_run(run_copy)
    reseal(run_copy)
    with pytest.raises(RunFailed, match="not the last model in the journal"):
        replay_run(run_copy)


def test_a_model_that_cannot_be_read_is_refused(run_copy):
    (run_copy / "model.safetensors").write_bytes(b"torn")
    reseal(run_copy)
    with pytest.raises(RunFailed, match=r"model.safetensors cannot be read"):
        replay_run(run_copy)


def test_a_run_that_goes_on_is_replayed_as_far_as_it_is(run_copy):
    journal = journals.reopen(run_copy / "run.db")
    journal.truncate(journal_rows_before_third_commit(run_copy))
    journal.close()
    (run_copy / "seal.json").unlink()
    for quick in (False, True):
        got = replay_run(run_copy, quick=quick)
        assert not got["ended"]
        assert got["commits"] == 2


def journal_rows_before_third_commit(folder):
    commits = [i for i, row in enumerate(journals.rows_of(folder / "run.db")) if row[1] == 12]
    return commits[1] + 1


def test_an_empty_journal_is_refused(run_copy):
    (run_copy / "seal.json").unlink()
    journals.create(run_copy / "run.db").close()
    with pytest.raises(BadInput, match="nothing to replay"):
        replay_run(run_copy)


def test_a_run_of_edges_replays(edge_run):
    result = replay_run(edge_run.out)
    assert result["commits"] == 5 and "arrivals" in result["verified"]
    assert result["digest"] == edge_run.metrics["digest"]
    # Edges take as long as what they train: nothing of that follows without training.
    assert "arrivals" in replay_run(edge_run.out, quick=True)["not_verified"]


def test_a_run_in_which_users_were_dropped_replays():
    seen = Watched("world.clients=24", "pace.ready_share=0.5", "pace.cohort=4", "stop.rounds=8").go()
    before = alphas_of(seen.reports)
    audit_by_rerun(seen.plan, seen.setup.world, seen.execute, numbered(seen.events))
    assert alphas_of(seen.reports) == before


def test_a_run_in_which_users_were_dropped_replays_where_nobody_is_weighed_against_others(tmp_path):
    perform(spec_with("pace.ready_share=0.5", "edge.adaptive=false", "stop.rounds=4"), tmp_path / "out")
    assert "models" in replay_run(tmp_path / "out")["verified"]
