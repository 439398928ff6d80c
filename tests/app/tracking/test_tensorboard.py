"""TensorBoard's own reader finds what was written."""

import pytest

from fedfleet.app.tracking.run_follower import export_events
from fedfleet.app.tracking.sink import sinks_of


def test_event_files_hold_curves_the_spec_and_the_end(tiny_run, tmp_path):
    loading = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    word = f"tensorboard:{tmp_path}"
    assert export_events(sinks_of([word]), tiny_run.spec, "mine", tiny_run.events, tiny_run.metrics, pytest.fail) == [
        word
    ]
    (path,) = (tmp_path / "mine").iterdir()
    events = list(loading.LegacyEventFileLoader(str(path)).Load())
    values = [(v.tag, e.step, e.wall_time, v) for e in events for v in e.summary.value]
    curve = [(step, wall, v.simple_value) for tag, step, wall, v in values if tag == "learning/accuracy"]
    seconds, accuracy = tiny_run.metrics["curve"]["seconds"], tiny_run.metrics["curve"]["accuracy"]
    assert [a for _, _, a in curve] == pytest.approx(accuracy)
    assert [wall - curve[0][1] for _, wall, _ in curve] == pytest.approx(seconds, abs=1e-3)  # relative time is virtual
    assert curve[-1][0] == tiny_run.metrics["rounds"]
    ends = {tag: v.simple_value for tag, _, _, v in values if tag.startswith("end/")}
    assert ends["end/accuracy"] == pytest.approx(tiny_run.metrics["accuracy"])
    assert any(tag == "spec" and b"digits_logreg" in v.tensor.string_val[0] for tag, _, _, v in values)
