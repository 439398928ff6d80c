"""A run is followed live as from its journal, and a sink that fails hurts neither the run nor the others."""

import json

import pytest

from fedfleet.app.runs import perform
from fedfleet.app.spec import load_spec
from fedfleet.app.tracking.run_follower import export_events, follow_run
from fedfleet.app.tracking.sink import Sink, sinks_of
from fedfleet.core.events import Evaluated
from tests.app.specs import TINY, written


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_live_and_afterwards_say_the_same(tmp_path):
    spec = load_spec(written(tmp_path, TINY), ["stop.rounds=2"])
    words = [f"jsonl:{tmp_path}/live.jsonl"]
    with follow_run(sinks_of(words), spec, "out", pytest.fail) as tracked:
        done = perform(spec, tmp_path / "out", watch=tracked.combined_with(None))
        tracked.end(done.metrics)
    assert tracked.done == words
    sinks = sinks_of([f"jsonl:{tmp_path}/after.jsonl"])
    export_events(sinks, spec, "out", done.events, done.metrics, pytest.fail)
    assert lines(tmp_path / "live.jsonl") == lines(tmp_path / "after.jsonl")
    assert [line["event"] for line in lines(tmp_path / "live.jsonl")][-1] == "ended"


def broken(at, calls):
    def act(what):
        def call(*given):
            calls.append(what)
            if what == at:
                raise OSError("the disk\nis full")

        return call

    return Sink("broken", act("begin"), act("write"), act("end"))


@pytest.mark.parametrize("at", ["begin", "write", "end"])
def test_a_sink_that_fails_is_named_and_not_called_again(tiny_run, tmp_path, at):
    calls, said = [], []
    sinks = [broken(at, calls), *sinks_of([f"jsonl:{tmp_path}/a.jsonl"])]
    done = export_events(sinks, tiny_run.spec, "x", tiny_run.events, tiny_run.metrics, said.append)
    assert said == ["broken failed and is not written to any more (the disk is full); the run goes on"]
    assert calls.count(at) == 1 and calls[-1] == at
    assert done == [f"jsonl:{tmp_path}/a.jsonl"] and lines(tmp_path / "a.jsonl")[-1]["event"] == "ended"


def test_a_run_that_stops_closes_its_sinks_and_one_that_never_began_leaves_no_trace(tiny_run, tmp_path):
    path = tmp_path / "a.jsonl"

    def interrupted(events):
        with follow_run(sinks_of([f"jsonl:{path}"]), tiny_run.spec, "x", pytest.fail) as tracked:
            if events:
                tracked.on_events(events)
            raise KeyboardInterrupt

    for events in ([], [Evaluated(0.0, 0, 1, 2, 0.5)]):
        with pytest.raises(KeyboardInterrupt):
            interrupted(events)
        assert path.exists() == bool(events)
    assert lines(path)[-1] == {"run": "x", "event": "stopped"}


def test_where_nobody_listens_nothing_stands_between_a_run_and_its_watch(tiny_run):
    watch = list.append
    with follow_run([], tiny_run.spec, "x", pytest.fail) as tracked:
        assert tracked.combined_with(watch) is watch and tracked.combined_with(None) is None
