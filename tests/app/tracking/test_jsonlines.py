"""Lines of JSON, each of which any reader takes."""

import json

from fedfleet.app.tracking.jsonlines import json_log, jsonlines
from fedfleet.app.tracking.points import Point


def strict(line):
    return json.loads(line, parse_constant=lambda word: 1 / 0)


def test_a_file_of_lines_that_grows(tiny_run, tmp_path):
    path = tmp_path / "deep" / "log.jsonl"
    for _ in range(2):
        sink = jsonlines(str(path))
        sink.begin(tiny_run.spec, "mine")
        sink.write(Point("round", 1, 2.5, {"loss": float("nan")}))
        assert len(path.read_text().splitlines()) in (2, 5)  # seen while the run goes on
        sink.end(tiny_run.metrics)
    result = [strict(line) for line in path.read_text().splitlines()]
    assert result[:3] == result[3:]
    assert result[0]["run"] == "mine" and result[1]["loss"] is None
    assert result[2]["accuracy"] == tiny_run.metrics["accuracy"]


def test_the_log_is_standard_error(tiny_run, capsys):
    sink = json_log()
    sink.begin(tiny_run.spec, "mine")
    sink.end(None)
    out, err = capsys.readouterr()
    assert out == "" and [strict(line)["event"] for line in err.splitlines()] == ["begun", "stopped"]
    assert all(strict(line)["level"] == "info" for line in err.splitlines())
