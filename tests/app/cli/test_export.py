"""`fedfleet export` gives a run to tracking tools from its journal."""

import json

from tests.app.specs import refused


def test_a_run_goes_to_several_places(fedfleet, tiny_run, tmp_path):
    words = ["--to", f"jsonl:{tmp_path}/a.jsonl", "--to", f"tensorboard:{tmp_path}/tb"]
    code, out, _ = fedfleet("export", tiny_run.out, *words, "--json")
    answer = json.loads(out)
    assert code == 0 and answer["to"] == words[1::2] and answer["failed"] == []
    assert [p.name for p in (tmp_path / "tb").iterdir()] == [tiny_run.out.name]


def test_a_place_that_cannot_be_written_is_named_and_fails(fedfleet, tiny_run, tmp_path):
    (tmp_path / "file").touch()
    code, out, err = fedfleet("export", tiny_run.out, "--to", f"jsonl:{tmp_path}/file/a.jsonl")
    assert code == 1 and "none of them" in out and "failed and is not written to any more" in err


def test_what_cannot_be_exported(fedfleet, tiny_run, tmp_path):
    refused(fedfleet("export", tmp_path / "nowhere", "--to", f"jsonl:{tmp_path}/a"), "there is no run folder")
    refused(fedfleet("export", tiny_run.out, "--to", "tensorbord:x"), "did you mean 'tensorboard'")
