"""Methods against the pseudo-code of their papers, written out in numpy and float64, round by round.

Clients train a perceptron on the embedded digits, each step on all of their samples, so that the literal version needs no batches.
"""

from __future__ import annotations

import numpy as np
import pytest

from fedfleet.core import aggregation
from fedfleet.core.aggregation import Aggregate
from fedfleet.core.part_facts import RunFacts
from fedfleet.core.parts import Job
from fedfleet.core.passes import SECOND
from fedfleet.core.records import Context
from fedfleet.executors.gather import admit
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.fetchsgd import table_of, with_sketch
from fedfleet.learn.zoo import ditto, fednova, heterofl
from tests.learn.unlike import executor, facts, task

pytestmark = pytest.mark.slow

CLIENTS, ROUNDS, LR = 4, 3, 0.25
CLOSE = 1e-6  # of weights that are float32 on one side
NAMES = ("1.weight", "1.bias", "3.weight", "3.bias")


def rows(client):
    """Other numbers of samples, all of them far from a batch of their own."""
    return np.arange(60 * client, 60 * client + 20 + 9 * client)


def start():
    return {n: v.astype(np.float64) for n, v in task().init(3).items()}


def gradients(w, at):
    """Of the mean cross-entropy of a perceptron with one hidden layer, by the chain rule."""
    data = task().dataset
    x, y = np.asarray(data.x[at], np.float64).reshape(len(at), -1), np.asarray(data.y[at])
    before = x @ w["1.weight"].T + w["1.bias"]
    hidden = np.maximum(before, 0.0)
    scores = hidden @ w["3.weight"].T + w["3.bias"]
    chances = np.exp(scores - scores.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    chances[np.arange(len(y)), y] -= 1.0
    up = chances / len(y)
    down = (up @ w["3.weight"]) * (before > 0)
    return {"1.weight": down.T @ x, "1.bias": down.sum(0), "3.weight": up.T @ hidden, "3.bias": up.sum(0)}


def local_sgd(w, at, steps, *, momentum=0.0, pull=0.0, centre=None):
    """tau steps of (momentum) SGD, towards `centre` if there is a pull."""
    w, speed = dict(w), dict.fromkeys(NAMES, 0.0)
    for _ in range(steps):
        g = gradients(w, at)
        if centre is not None:
            g = {n: v + pull * (w[n] - centre[n]) for n, v in g.items()}
        speed = {n: momentum * speed[n] + g[n] for n in NAMES}
        w = {n: w[n] - LR * speed[n] for n in NAMES}
    return w


def product_rounds(algorithm, steps):
    """The server and what its clients remember after each round of the product, all clients in every round."""
    server, memories = algorithm.init(task().init(3)), [{} for _ in range(CLIENTS)]
    for round in range(ROUNDS):
        jobs: list[Job] = []
        for c in range(CLIENTS):
            offer, local = algorithm.offer(server, c, {}), algorithm.local(c, {})
            jobs.append(Job(CLIENTS * round + c, c, 100 + c, 7, offer, local, rows(c), steps[c], memories[c]))
        acc = aggregation.zero(algorithm.fold, server)
        for c, report in enumerate(executor("inline").train(jobs)):
            why = admit(algorithm.fold, server, acc, report, Context(0, 1.0, c), algorithm.accept)
            assert why is None, why
            memories[c] = report.memory or memories[c]
        server = algorithm.apply(server, aggregation.finish(algorithm.fold, acc))
        yield server, memories


def distance(params, w):
    return max(float(np.abs(params[n] - w[n]).max()) for n in NAMES)


def shares():
    sizes = np.array([len(rows(c)) for c in range(CLIENTS)], np.float64)
    return sizes / sizes.sum()


STEPS = (1, 7, 3, 12)


def test_the_literal_gradient_is_right():
    w, at, step = start(), rows(2), 1e-6
    data = task().dataset

    def loss(w):
        x, y = np.asarray(data.x[at], np.float64).reshape(len(at), -1), np.asarray(data.y[at])
        scores = np.maximum(x @ w["1.weight"].T + w["1.bias"], 0) @ w["3.weight"].T + w["3.bias"]
        return float((np.log(np.exp(scores).sum(1)) - scores[np.arange(len(y)), y]).mean())

    g, rng = gradients(w, at), np.random.default_rng(0)
    for name in NAMES:
        place = tuple(rng.integers(0, n) for n in w[name].shape)
        moved = w[name].copy()
        moved[place] += step
        assert (loss({**w, name: moved}) - loss(w)) / step == pytest.approx(g[name][place], abs=1e-5)


@pytest.mark.parametrize(("momentum", "mu"), [(0.0, 0.0), (0.8, 0.0), (0.0, 0.3)])
def test_fednova_with_unequal_steps(momentum, mu):
    """Wang et al. 2020, Algorithm 1: d_i = (w_t - w_i) / |a_i|_1, w <- w - tau_eff sum p_i d_i, tau_eff = sum p_i |a_i|_1.

    a_i holds how often each gradient enters: by a recursion for momentum and pull, as in the authors' optimiser.
    """
    w, p = start(), shares()
    algorithm = fednova(lr=LR, batch=1000, momentum=momentum, **({"mu": mu} if mu else {}))
    for server, _ in product_rounds(algorithm, STEPS):
        directions, lengths = [], []
        for c in range(CLIENTS):
            end = local_sgd(w, rows(c), STEPS[c], momentum=momentum, pull=mu, centre=w if mu else None)
            counter, a = 0.0, 0.0
            for _ in range(STEPS[c]):
                if mu:
                    a = (1.0 - LR * mu) * a + 1.0
                else:
                    counter = momentum * counter + 1.0
                    a += counter
            directions.append({n: (w[n] - end[n]) / a for n in NAMES})
            lengths.append(a)
        effective = float(p @ lengths)
        w = {n: w[n] - effective * sum(p[c] * directions[c][n] for c in range(CLIENTS)) for n in NAMES}
        assert distance(server.params, w) < CLOSE
    assert distance(task().init(3), w) > 0.05, "it went somewhere"


def test_fednova_is_not_fedavg_where_steps_differ():
    *_, (nova, _) = product_rounds(fednova(lr=LR, batch=1000), STEPS)
    *_, (plain, _) = product_rounds(fedavg(lr=LR, batch=1000), STEPS)
    assert distance(nova.params, {n: plain.params[n].astype(np.float64) for n in NAMES}) > 1e-3


def test_fedavg_itself():
    w, p = start(), shares()
    for server, _ in product_rounds(fedavg(lr=LR, batch=1000), STEPS):
        ends = [local_sgd(w, rows(c), STEPS[c]) for c in range(CLIENTS)]
        w = {n: sum(p[c] * ends[c][n] for c in range(CLIENTS)) for n in NAMES}
        assert distance(server.params, w) < CLOSE


@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_ditto_s_own_models(lam):
    """Li et al. 2021, Algorithm 1: clients do as FedAvg says with w^t, and v_k <- v_k - eta (grad F_k(v_k) + lam (v_k - w^t))."""
    w, p, own = start(), shares(), [start() for _ in range(CLIENTS)]
    algorithm = ditto(lr=LR, batch=1000, lam=lam)
    for server, memories in product_rounds(algorithm, STEPS):
        own = [local_sgd(own[c], rows(c), STEPS[c], pull=lam, centre=w) for c in range(CLIENTS)]
        ends = [local_sgd(w, rows(c), STEPS[c]) for c in range(CLIENTS)]
        w = {n: sum(p[c] * ends[c][n] for c in range(CLIENTS)) for n in NAMES}
        assert distance(server.params, w) < CLOSE
        for c in range(CLIENTS):
            assert distance(memories[c][SECOND], own[c]) < CLOSE
            assert distance(algorithm.personal(server.params, memories[c]), own[c]) < CLOSE
    assert distance(memories[1][SECOND], w) > 0.01, "own models differ from the shared one"


def test_heterofl_element_by_element():
    """Diao et al. 2021: client m trains W[:d_m, :k_m]; each element becomes the mean over those who have it, others stay."""
    widths = [1.0, 0.5, 0.25]
    algorithm = heterofl(widths=widths, lr=LR, batch=1000, weigh="one", fleet=facts())
    w, moved = start(), 0
    for server, _ in product_rounds(algorithm, STEPS):
        total = {n: np.zeros_like(v) for n, v in w.items()}
        count = {n: np.zeros_like(v) for n, v in w.items()}
        for c in range(CLIENTS):
            offered = algorithm.offer(algorithm.init(task().init(3)), c, {}).params
            units = len(offered["1.bias"])
            assert units / 16 in widths
            part = {"1.weight": np.s_[:units], "1.bias": np.s_[:units], "3.weight": np.s_[:, :units], "3.bias": np.s_[:]}
            end = local_sgd({n: w[n][part[n]] for n in NAMES}, rows(c), STEPS[c])
            for n in NAMES:
                total[n][part[n]] += end[n]
                count[n][part[n]] += 1
        for n in NAMES:
            for i in np.ndindex(w[n].shape):
                if count[n][i]:
                    w[n][i] = total[n][i] / count[n][i]
                    moved += 1
        assert distance(server.params, w) < CLOSE
    assert moved and {int(v.max()) for v in count.values()} == {CLIENTS}


@pytest.mark.parametrize("semantics", ["paper", "released"])
@pytest.mark.parametrize("rows_of_table", [1, 3])
def test_fetchsgd_coordinate_by_coordinate(semantics, rows_of_table):
    """Rothchild et al. 2020, Algorithm 1, on updates of local passes, with a count sketch written out.

    S_u <- rho S_u + S, S_e <- eta S_u + S_e, D <- top-k of the medians, S_e <- S_e - S(D); as released, the cells of D are cleared
    in S_u and S_e instead.
    """
    rho, eta, columns, k = 0.9, 0.7, 150, 40
    options = {"rows": rows_of_table, "columns": columns, "k": k, "server_momentum": rho, "server_lr": eta, "semantics": semantics}
    algorithm = with_sketch(fedavg(lr=LR, batch=1000), **options, facts=RunFacts(clients=CLIENTS, seed=5, rounds=ROUNDS))
    w, p = start(), shares()
    size = sum(v.size for v in w.values())
    table = table_of(5, size, rows_of_table, columns)

    def sketch(vector):
        cells = np.zeros((rows_of_table, columns))
        for row in range(rows_of_table):
            for i, value in enumerate(vector):
                cells[row, table.cells[row, i]] += table.own_signs[row, i] * value
        return cells

    def estimate(cells):
        return np.array(
            [np.median([cells[r, table.cells[r, i]] * table.own_signs[r, i] for r in range(rows_of_table)]) for i in range(size)]
        )

    u = e = np.zeros((rows_of_table, columns))
    for server, _ in product_rounds(algorithm, STEPS):
        ends = [local_sgd(w, rows(c), STEPS[c]) for c in range(CLIENTS)]
        flat = [np.concatenate([(end[n] - w[n]).reshape(-1) for n in sorted(NAMES)]) for end in ends]
        u = rho * u + sum(p[c] * sketch(flat[c]) for c in range(CLIENTS))
        e = eta * u + e
        found = estimate(e)
        chosen = np.argsort(-np.abs(found), kind="stable")[:k]
        step = np.zeros(size)
        step[chosen] = found[chosen]
        hit = sketch(step)
        if semantics == "paper":
            e = e - hit
        else:
            u, e = np.where(hit == 0.0, u, 0.0), np.where(hit == 0.0, e, 0.0)
        parts = np.split(step, np.cumsum([w[n].size for n in sorted(NAMES)])[:-1])
        w = {n: w[n] + part.reshape(w[n].shape) for n, part in zip(sorted(NAMES), parts, strict=True)}
        largest_cell = max(1.0, np.abs(e).max(), np.abs(u).max())  # hundreds of float32 are added up in it
        assert distance(server.params, w) < CLOSE * largest_cell
        assert np.abs(server.extra["sketch/momentum"] - u).max() < CLOSE * largest_cell
        assert np.abs(server.extra["sketch/error"] - e).max() < CLOSE * largest_cell


@pytest.mark.parametrize("semantics", ["paper", "released"])
def test_fetchsgd_s_server_in_double_precision_is_the_same_function(semantics):
    """The rule of the server alone, on sketches in float64: no rounding of float32 hides a difference."""
    rng, size = np.random.default_rng(1), 90
    algorithm = with_sketch(
        fedavg(), rows=3, columns=30, k=7, server_momentum=0.5, server_lr=0.25, semantics=semantics, facts=RunFacts(1, 5, 9)
    )
    server, table = algorithm.init({"w": np.zeros(size)}), table_of(5, size, 3, 30)
    u = e = np.zeros((3, 30))
    w = np.zeros(size)
    for _ in range(4):
        mean = rng.normal(size=(3, 30))
        server = algorithm.apply(server, Aggregate({"sketch": mean}, 1.0, 1))
        u = 0.5 * u + mean
        e = e + 0.25 * u
        found = np.median([e[r, table.cells[r]] * table.own_signs[r] for r in range(3)], axis=0)
        step = np.where(np.isin(np.arange(size), np.argsort(-np.abs(found), kind="stable")[:7]), found, 0.0)
        hit = np.stack([np.bincount(table.cells[r], weights=step * table.own_signs[r], minlength=30) for r in range(3)])
        u, e = (u, e - hit) if semantics == "paper" else (np.where(hit == 0, u, 0.0), np.where(hit == 0, e, 0.0))
        w = w + step
        assert np.abs(server.params["w"] - w).max() < 1e-6
