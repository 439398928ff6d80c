"""Every registered method on a server: what transmitters stream is what a simulation folds; the rest is spooled or refused."""

import numpy as np
import pytest

from fedfleet.core import aggregation
from fedfleet.core.errors import BadInput
from fedfleet.core.records import Context, Report
from fedfleet.core.registry import names
from fedfleet.core.rng import stream
from fedfleet.network.frontend.partial_sums import PartialSums, fold_layout, refusal
from fedfleet.network.frontend.report_log import LogEntry
from fedfleet.network.server.served_plan import check_servable
from tests.app.assemble.test_client_config import made

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", names("algorithms"))
def test_streamed_sums_are_those_of_the_fold(name):
    setup = made(name)
    algorithm, server = setup.plan.algorithm, setup.plan.algorithm.init(setup.plan.params)
    if algorithm.pooled:
        with pytest.raises(BadInput, match="in one place"):
            check_servable(setup.plan, 1)
        return
    check_servable(setup.plan, 1)
    fold = algorithm.fold
    if not fold.streams or fold.partial or algorithm.accept is not None:
        return  # spooled, and folded in task order by the very functions of the simulation
    like, whole, parts = fold.like(server), aggregation.zero(fold, server), PartialSums(fold_layout(fold, server), None)
    draw = stream(7, "served", 0)
    for task in range(3):
        update = {n: (draw.normal(size=v.shape) / 64).astype(v.dtype) for n, v in like.items()}
        context, stats = Context(task, 2.0, task, task=task), {"loss": 1.0, "samples": 4.0, "steps": 2.0}
        report = Report(task, task, update, 4.0, stats)
        entry = fold.enter(report.weight, stats, context)
        assert entry.parts is None
        assert refusal(fold_layout(fold, server), update, report.weight) == aggregation.refusal(fold, whole, report, context)
        assert aggregation.check_and_add(fold, whole, report, context) is None
        parts.add(0, LogEntry(task, task, task, 0.0, entry.weight, entry.factor, entry.sum, 0, 0, (), (), 0), update)
    mine, theirs = parts.bucket_sums(0), aggregation.save(whole)
    assert mine is not None and mine.keys() == theirs.keys()
    assert all(np.array_equal(mine[n], theirs[n]) for n in theirs)
