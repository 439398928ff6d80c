"""A setup's executor is closed when it is no longer used."""

from dataclasses import replace

import pytest

from fedfleet.app.assemble import assemble, executing
from fedfleet.app.spec import resolve


def test_what_an_executor_started_ends_with_its_use():
    setup, ended = assemble(resolve({"task": "digits_logreg"})), []
    closing = replace(setup, executor=lambda keep: replace(setup.executor(keep), close=lambda: ended.append(keep)))
    with executing(closing, "here"):
        assert ended == []
    assert ended == ["here"]
    with pytest.raises(RuntimeError), executing(closing, "there"):
        raise RuntimeError
    assert ended == ["here", "there"], "also when something fails"
