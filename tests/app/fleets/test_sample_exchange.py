"""One user's exchange of samples, from a file to an answer."""

import json

import numpy as np
import pytest

from fedfleet.app.fleets.sample_exchange import exchange_text, gap, read_problem, solve_file
from fedfleet.core.errors import BadInput
from fedfleet.shuffle import score
from tests.app.api.test_shuffle import USER


def problem(folder):
    (folder / "user.json").write_text(json.dumps(USER))
    return read_problem(folder / "user.json")


def test_the_answer_is_worth_what_it_says(tmp_path):
    user = problem(tmp_path)
    got = solve_file(user, solver="exact", quick=True, limit=1.0)
    result = score(user, np.array(got["plan"]))
    assert got["objective"] == result.objective and got["moved"] == result.moved
    assert got["bound"] is None


def test_the_text_shows_every_device_and_the_proven_gap(tmp_path):
    user = problem(tmp_path)
    got = solve_file(user, solver="exact", quick=False, limit=1.0)
    text = exchange_text(user, got)
    assert [line.split()[0] for line in text.splitlines()[1:4]] == ["0", "1", "2"]
    assert f"proven to within {gap(got):.2%}" in text
    assert f"moved      {got['moved']} of 158 samples" in text


def test_a_file_without_a_problem_is_refused(tmp_path):
    for content, says in ((b"[1]", "must hold one JSON object with counts"), (b"{", "is not JSON")):
        (tmp_path / "user.json").write_bytes(content)
        with pytest.raises(BadInput, match=says):
            read_problem(tmp_path / "user.json")
