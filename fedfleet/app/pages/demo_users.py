"""The demo's second page: the same people, seen as users with several devices that may exchange samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.assemble import assemble
from fedfleet.app.pages.figures import accuracy_over_time
from fedfleet.app.pages.html import figure, page, table
from fedfleet.app.pages.shuffling import durations, holdings
from fedfleet.app.pages.svg import COLOURS
from fedfleet.app.progress import progress
from fedfleet.app.runs import Finished, perform
from fedfleet.app.show import percent, span
from fedfleet.app.spec import resolve
from fedfleet.core.edges import NestedPass
from fedfleet.core.parts import Job
from fedfleet.engine.nested import visits_of
from fedfleet.measure.learning import time_to_accuracy
from fedfleet.shuffle import Problem, problem_from, score, solve

DEVICES, USERS_A_ROUND, ROUNDS, TARGET, SEED = 70, 4, 40, 0.85, 7
METHODS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "FedAvg": ("Devices are asked one by one, whoever they belong to.", None),
    "HierFL": ("A user's devices are averaged three times at home before the server hears of it.", {"use": "hierfl", "kappa1": 2, "kappa2": 3}),
    "ShuffleFL": ("Before they train, a user's devices exchange samples, so that all finish together with like mixtures.", {"use": "shufflefl"}),
}  # fmt: skip


def users_spec(edge: dict[str, Any] | None) -> dict[str, Any]:
    """One run of this page. Flat runs ask as many devices as the others' users have."""
    table = {
        "seed": SEED,
        "task": {"use": "digits_mlp"},
        "world": {
            "clients": DEVICES,
            "devices": {"use": "spread", "mbps": 20.0, "link": 1.33, "compute": 0.64},
            "data": {"use": "dirichlet", "alpha": 1.0},
            "users": {"use": "households", "devices": [2, 5]},
        },
        "algorithm": {"use": "fedavg", "optimiser": "adam", "lr": 0.003, "epochs": 5, "batch": 32},
        "pace": {"use": "readiness", "cohort": USERS_A_ROUND if edge else round(3.5 * USERS_A_ROUND)},
        "stop": {"rounds": ROUNDS},
        "run": {"execute": "stacked"},
    }
    return table | ({"edge": edge} if edge else {})


def run_users(out: Path, *, quiet: bool = False) -> list[dict[str, Any]]:
    """Train by each method and write the page."""
    runs: dict[str, Finished] = {}
    for name, (_, edge) in METHODS.items():
        spec = resolve(users_spec(edge), f"users-{name.lower()}")
        with progress(ROUNDS, quiet=quiet, label=f"users, {name}") as watch:
            runs[name] = perform(spec, out / "runs" / spec.name, watch=watch)
    (out / "users.html").write_text(render(runs))
    return [_row(name, done) for name, done in runs.items()]


def _row(name: str, done: Finished) -> dict[str, Any]:
    m = done.metrics
    return {
        "method": name, "accuracy": m["accuracy"], "seconds_to_target": time_to_accuracy(done.events, TARGET),
        "virtual_seconds": m["virtual_seconds"], "digest": m["digest"],
    }  # fmt: skip


def one_user() -> Problem:
    """The exchange that the user with most devices faces in the first round."""
    setup = assemble(resolve(users_spec(METHODS["ShuffleFL"][1])))
    inside = setup.plan.algorithm.local(0)
    assert isinstance(inside, NestedPass)
    user = int(np.argmax(np.bincount(inside.fleet.users.user_of)))
    job = Job(0, user, 0, SEED, {}, inside, setup.world.data.shard(user, "train", 0))
    (visit,) = visits_of([job])
    data = setup.task.dataset
    return problem_from({
        "counts": np.stack([np.bincount(data.y[rows], minlength=data.classes) for rows in visit.rows]),
        "seconds_per_sample": visit.able.seconds_per_sample, "up_bps": visit.able.up_bps, "down_bps": visit.able.down_bps,
        "bits_per_sample": 8 * data.x[:1].nbytes, "epochs": 5, "alpha": "auto",
    })  # fmt: skip


def render(runs: dict[str, Finished]) -> str:
    """The page."""
    problem = one_user()
    found = solve(problem)
    assert found.bound is not None
    after = score(problem, found.plan)
    lines = [(n, done.events, COLOURS[i], False) for i, (n, done) in enumerate(runs.items())]
    rows = []
    for name, done in runs.items():
        r = _row(name, done)
        to = r["seconds_to_target"]
        rows.append([name, METHODS[name][0], percent(r["accuracy"]), "never" if to is None else span(to), span(r["virtual_seconds"])])  # fmt: skip
    body = [
        "<h1>One person, several devices</h1>",
        f'<p class="lead">Phones, watches and tablets often belong to one person, who may let them share. {DEVICES} devices of users with two to '
        "five each learn to read digits; speeds differ 13-fold in computing and 200-fold in bandwidth.</p>",
        table(["method", "what it does", "accuracy", f"time to {TARGET:.0%}", f"time of {ROUNDS} rounds"], rows, words=[1]),
        figure(accuracy_over_time(lines), "Accuracy against virtual time. Planning, exchanging samples and all transfers of the model are charged."),
        "<h2>What an exchange looks like</h2>",
        f"<p>The user with most devices, before and after its first exchange. The plan is proven to lie within {(found.relaxed - found.bound) / found.relaxed:.2%} "
        f"of the best that fractions of samples could reach; in whole samples it costs {found.score.objective / found.relaxed - 1:.1%} more. "
        f"{int(after.moved)} of {int(problem.counts.sum())} samples change device.</p>",
        figure(holdings(problem.counts, found.plan.sum(0)), "How many samples of each digit, 0 to 9 from left to right, a device holds before and after; all on one scale."),
        figure(durations(problem, found.plan), "How long each device takes: the slow ones hand samples to those that have time."),
        '<p><a href="report.html">Back to the three fleets.</a> Solve one of your own with <code>fedfleet shuffle user.json --picture user.html</code>.</p>',
    ]  # fmt: skip
    return page("FedFleet demo: one person, several devices", body)
