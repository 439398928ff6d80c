"""Sums that an edge forwards: merged to the last bit, and refused with a reason if they are of another shape or too large."""

import numpy as np
import pytest

from fedfleet.core import aggregation
from fedfleet.core.commands import Gather
from fedfleet.core.records import Context, Report
from fedfleet.core.tensor_format import pack_tree
from fedfleet.core.trees import content_hash
from fedfleet.network.frontend.report_log import LogEntry
from fedfleet.network.frontend.spool import Spool
from fedfleet.network.server.commit import make_commit
from fedfleet.network.server.turns import CommitJob, ReportMeta
from fedfleet.store.noise_source import SEEDED
from tests.network.server.test_edge_plans import Planned


def sums_of(fold, server, seeds):
    """The sum of some devices' reports, and the reports."""
    acc, reports = aggregation.zero(fold, server), []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        update = {n: rng.normal(size=v.shape).astype(v.dtype) for n, v in server.params.items()}
        report = Report(seed, seed, update, 1.0 + seed, {})
        assert aggregation.check_and_add(fold, acc, report, Context(0, 0.0, seed)) is None
        reports.append(report)
    return acc, reports


def committed(folder, run, payloads, weights):
    """What a server makes of these payloads of edges 0, 1, .. that lie in its spool."""
    plan = run.setup.plan
    server = plan.algorithm.init(plan.params)
    spool = Spool(folder / "t0", lasting=True)
    for task, (payload, weight) in enumerate(zip(payloads, weights, strict=True)):
        spool.add(0, LogEntry(task, task, task, 0.0, weight, 1.0, "", 0, len(payload), (), (), 0), payload)
    spool.sync()
    spool.close()
    contexts = [Context(0, 1.0, task, {}, task) for task in range(len(payloads))]
    command = Gather(tuple(range(len(payloads))), (), contexts, server, 1)
    metas = {task: ReportMeta(weight, (), ()) for task, weight in enumerate(weights)}
    job = CommitJob(command, 0, {}, metas, [], 0, [str(folder / "t0")])
    return make_commit(plan, job, {}, None, SEEDED)


@pytest.fixture
def run(tmp_path):
    return Planned(tmp_path, "edge={use='hierfl', kappa2=1}")


def test_sums_of_edges_are_the_sum_of_their_devices_to_the_last_bit(run, tmp_path):
    plan = run.setup.plan
    fold, server = plan.algorithm.fold, plan.algorithm.init(plan.params)
    edges = [sums_of(fold, server, seeds)[0] for seeds in ((1, 2), (3,))]
    whole, _ = sums_of(fold, server, (3, 1, 2))
    fact = committed(tmp_path, run, [pack_tree(aggregation.save(acc)) for acc in edges], [5.0, 4.0])
    assert fact.rejected == ()
    assert content_hash(aggregation.save(fact.aggregate)) == content_hash(aggregation.save(whole))


def test_sums_that_cannot_be_true_are_refused_and_harm_nobody_else(run, tmp_path):
    plan = run.setup.plan
    fold, server = plan.algorithm.fold, plan.algorithm.init(plan.params)
    acc, _ = sums_of(fold, server, (1, 2))
    good = aggregation.save(acc)
    leaf = next(name for name in good if name.startswith("|sum/"))
    bad = [
        {**good, leaf: good[leaf].reshape(-1)[:1]},
        {**good, leaf: good[leaf].astype(np.int32)},
        {n: v for n, v in good.items() if n != leaf},
        {**good, "other|weight": good["|weight"]},
        {**good, leaf: np.full_like(good[leaf], np.iinfo(np.int64).max)},
        {**good, "|weight": np.full_like(good["|weight"], np.iinfo(np.int64).max)},
        {**good, "|weight": -good["|weight"]},
        {**good, "|count": np.array([-1])},
    ]
    payloads = [pack_tree(tree) for tree in (good, *bad)] + [b"", b"{}"]
    fact = committed(tmp_path, run, payloads, [5.0] * len(payloads))
    assert fact.tasks.tolist() == [0]
    assert [r.task for r in fact.rejected] == list(range(1, len(payloads)))
    assert all(r.reason.startswith(f"client {r.client}: ") for r in fact.rejected)
    assert content_hash(aggregation.save(fact.aggregate)) == content_hash(good)
