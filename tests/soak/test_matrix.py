"""Every cell of the matrix of passes, on every model, form and number of threads."""

import pytest

from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.testing import check_executor
from fedfleet.testing.passes import cases
from tests.testing.models import TASKS


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("form", ["merged", "loop"])
@pytest.mark.parametrize("name", TASKS)
def test_every_cell(name, form, threads):
    task = TASKS[name]()
    result = check_executor(stacked_executor(task, form=form, threads=threads), task)
    assert result.cells == len(list(cases(task)))
