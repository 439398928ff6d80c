"""Runs with users and edges for tests: a spec, and a run whose edges and devices are watched while they work."""

import tomllib
from dataclasses import replace

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import apply_overrides, resolve
from fedfleet.engine.hierarchy import MAX_SYNCS, make_visits
from fedfleet.executors.edge_turns import nested_executor
from fedfleet.executors.inline import inline
from fedfleet.simulation.simulator import simulate
from fedfleet.store import journal as journals

SPEC = """
seed = 5
[task]
use = "digits_logreg"
[world]
clients = 14
data = { use = "dirichlet", alpha = 0.5 }
devices = { use = "spread", jitter = 0.5 }
users = { use = "households", devices = [1, 4] }
[algorithm]
batch = 32
[edge]
use = "shufflefl"
[pace]
use = "readiness"
cohort = 3
[stop]
rounds = 5
[run]
checkpoint_every = 1
"""
BITS = 8.0 * 650 * 4  # of the model


def spec_with(*words):
    return resolve(apply_overrides(tomllib.loads(SPEC), words))


def flat(*words):
    table = tomllib.loads(SPEC)
    del table["edge"]
    return resolve(apply_overrides(table, words))


class Watched:
    """A run whose edges and devices are both watched while they work: waves of edges, and each device's rows."""

    def __init__(self, *words, inner=inline, pace=None):
        self.setup = assemble(spec_with(*words))
        self.plan = self.setup.plan if pace is None else replace(self.setup.plan, pace=pace)
        self.visits, self.trained, self.reports, self.events = {}, {}, {}, []
        below = inner(self.setup.task)

        def devices(jobs):
            for job in jobs:
                self.trained.setdefault(job.task // MAX_SYNCS, {})[job.client] = job.rows
            return below.train(jobs)

        above = nested_executor(replace(below, train=devices))

        def edges(jobs):
            self.visits |= {visit.task: visit for visit in make_visits(jobs)}
            result = list(above.train(jobs))
            self.reports |= {report.task: report for report in result}
            return result

        self.execute = replace(above, train=edges)

    def go(self):
        self.journal = journals.memory_journal()
        self.done = simulate(self.plan, self.setup.world, self.execute, journal=self.journal, watch=self.events.extend)
        return self


def alphas_of(reports):
    return {task: report.stats["alpha"] for task, report in reports.items()}
