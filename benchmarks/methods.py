"""One round of local training by method, against our own inline executor and against FedAvg's round: what does stacking give
momentum, Adam, a method with client memory, one with a hook, a hundred different learning rates, and every registered method?

    python -m benchmarks.methods [--only NAME ..]                            # CPU: digits_mlp, 50 clients, against inline
    python -m benchmarks.methods --device cuda --task femnist_cnn --cohort 100 --steps 12 --batch 16 [--tf32] [--jax]

On a GPU a round ends with the exact sums; --jax times the same FedAvg work as one compiled jit(vmap(scan)) in JAX.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

from fedfleet.app.machine.bench import synthetic_task
from fedfleet.core.labels import RunFacts
from fedfleet.core.parts import Algorithm
from fedfleet.core.passes import NO_SETTINGS, Drift, LocalPass, Passed, Slot, zeros_like
from fedfleet.core.registry import builder, names, parameters
from fedfleet.learn.compose import with_pass
from fedfleet.learn.terms import with_term
from fedfleet.learn.zoo import fedavg
from fedfleet.runtime.executors.bench import Bench, algorithm_jobs, compare_algorithm, fold_work, timed
from fedfleet.runtime.executors.stacked.executor import stacked
from fedfleet.runtime.executors.stacked.forms import candidates

CONTROL = Slot("control", zeros_like)


def _move_control(passed: Passed) -> Passed:
    """SCAFFOLD's second option: the control variate becomes the mean gradient of the pass."""
    scale = 1.0 / (passed.rates * passed.steps)
    control = {n: v - passed.update[n] * scale[0] for n, v in passed.memory["control"].items()}
    return replace(passed, memory={**passed.memory, "control": control})


def _clip(passed: Passed) -> Passed:
    """Each client's update, shortened to a norm of 1."""
    total: Any = sum(v.flatten(1).square().sum(1) for v in passed.update.values())
    short = total.sqrt().clamp(min=1.0).reciprocal()
    update = {n: v * short.reshape(-1, *(1,) * (v.dim() - 1)) for n, v in passed.update.items()}
    return replace(passed, update=update)


def controlled(algorithm: Algorithm) -> Algorithm:
    """Clients with a control variate in their memory, as a term of the gradient and as a hook at the end."""
    drift = Drift(lambda start, carried: carried.memory["control"])
    more = with_pass(with_term(algorithm, drift), "", lambda p: replace(p, slots=(CONTROL,), after=(_move_control,)))
    return replace(more, name="control variates")


def many_rates(algorithm: Algorithm) -> Algorithm:
    """Every client with a learning rate of its own."""

    def local(client: int, settings: Any) -> LocalPass:
        inner = algorithm.local(client, settings)
        assert isinstance(inner, LocalPass)
        return replace(inner, rate=inner.rate * (0.5 + client / 100))

    return replace(algorithm, local=local, name="own rates")


def registered(batch: int, clients: int) -> dict[str, Algorithm]:
    """Every registered method that can be built from its defaults and whose clients train in stacks; FedAvg first."""
    found: dict[str, Algorithm] = {}
    for name in sorted(names("algorithms"), key=lambda n: (n != "fedavg", n)):
        build = builder("algorithms", name)
        facts = {n: RunFacts(clients, 0, 100) for n, (hint, _) in parameters(build).items() if hint is RunFacts}
        open_ones = [n for n, (_, p) in parameters(build).items() if p.default is p.empty and n not in facts]
        if open_ones:
            print(f"{name:<12} needs {', '.join(open_ones)}, and is left out")
            continue
        made = build(lr=0.01, batch=batch, **facts)
        if not made.pooled and isinstance(made.local(0, NO_SETTINGS), LocalPass):
            found[name] = made
    return found


def methods(batch: int, clients: int) -> dict[str, Algorithm]:
    """The methods by name."""
    plain: dict[str, Any] = {"lr": 0.01, "batch": batch}
    base = fedavg(**plain)
    return {
        **registered(batch, clients),
        "momentum": fedavg(momentum=0.9, **plain),
        "adam": fedavg(lr=0.001, batch=batch, optimiser="adam"),
        "memory": controlled(base),
        "after hook": with_pass(base, "", lambda p: replace(p, after=(_clip,))),
        "own rates": many_rates(base),
    }


def jax_round(bench: Bench, repeats: int, tf32: bool) -> float:
    """The same FedAvg work on femnist_cnn, compiled whole by JAX: vmap over clients of a scan over steps, then the mean."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    precision = jax.lax.Precision.DEFAULT if tf32 else jax.lax.Precision.HIGHEST
    params = {n: jnp.asarray(v) for n, v in bench.task.init(0).items()}
    conv = [n for n, v in params.items() if v.ndim == 4]
    dense = [n for n, v in params.items() if v.ndim == 2]

    def logits(p: Any, x: Any) -> Any:
        for n in conv:
            out = jax.lax.conv_general_dilated(x, p[n], (1, 1), "SAME", precision=precision)
            out = jax.nn.relu(out + p[n.replace("weight", "bias")][None, :, None, None])
            x = jax.lax.reduce_window(out, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        x = x.reshape(len(x), -1)
        for i, n in enumerate(dense):
            x = jnp.dot(x, p[n].T, precision=precision) + p[n.replace("weight", "bias")]
            x = jax.nn.relu(x) if i + 1 < len(dense) else x
        return x

    def loss(p: Any, x: Any, y: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(logits(p, x)), y[:, None], 1).mean()

    def client(p: Any, x: Any, y: Any) -> Any:
        def step(p: Any, batch: Any) -> Any:
            g = jax.grad(loss)(p, *batch)
            return jax.tree.map(lambda a, b: a - 0.01 * b, p, g), None

        return jax.lax.scan(step, p, (x, y))[0]

    @jax.jit
    def one_round(p: Any, x: Any, y: Any) -> Any:
        ends = jax.vmap(client, in_axes=(None, 0, 0))(p, x, y)
        return jax.tree.map(lambda a, b: a + (b - a).mean(0), p, ends)

    data = bench.task.dataset
    rows = np.arange(bench.cohort * bench.steps * bench.batch) % len(data.y)
    shape = (bench.cohort, bench.steps, bench.batch)
    x, y = jnp.asarray(data.x[rows].reshape(*shape, *data.x.shape[1:])), jnp.asarray(data.y[rows].reshape(shape))
    jax.block_until_ready(one_round(params, x, y))
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(one_round(params, x, y))
        found.append(time.perf_counter() - start)
    return sorted(found)[len(found) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="digits_mlp")
    parser.add_argument("--cohort", type=int, default=50)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--jax", action="store_true")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", nargs="+", default=())
    asked = parser.parse_args()
    task = synthetic_task(asked.task, max(200, min(asked.cohort * asked.steps * asked.batch, 20_000)))
    bench = Bench(task, asked.cohort, asked.steps, asked.batch, asked.device, 1, asked.tf32, "merged", asked.repeats)
    what = f"{asked.task}, {asked.cohort} clients x {asked.steps} steps x {asked.batch}, {asked.device}"
    print(f"{what}{', tf32' if asked.tf32 else ''}")
    chosen = {n: a for n, a in methods(asked.batch, asked.cohort).items() if not asked.only or n in asked.only}
    if asked.device == "cpu":
        _on_cpu(bench, chosen)
        return
    import torch

    base, execute = 0.0, stacked(task, device=asked.device, tf32=asked.tf32)
    for name, algorithm in chosen.items():
        jobs = algorithm_jobs(bench, algorithm)
        # What is priced by its values is trained before it is known who arrives, and folded from reports.
        in_place = None if algorithm.priced_by_value else fold_work(execute, algorithm, task, jobs)
        work = in_place or (lambda jobs=jobs: list(execute.train(jobs)))
        start = time.perf_counter()
        for _ in range(3):  # recording, and memory that is there
            work()
        torch.cuda.synchronize()
        warm = time.perf_counter() - start
        seconds, _ = timed(work, asked.device, asked.repeats)
        base = base or seconds
        print(
            f"{name:<12} {1000 * seconds:8.1f} ms a round, {seconds / base:5.2f}x fedavg, warming up {warm:.1f} s",
            flush=True,
        )
    if asked.jax:
        seconds = jax_round(bench, asked.repeats, asked.tf32)
        print(
            f"{'jax vmap':<12} {1000 * seconds:8.1f} ms a round, {seconds / base:5.2f}x fedavg (same work, compiled whole)"
        )


def _on_cpu(bench: Bench, chosen: dict[str, Algorithm]) -> None:
    for name, algorithm in chosen.items():
        found = [compare_algorithm(replace(bench, form=f, threads=n), algorithm) for f, n in candidates("cpu", 2)]
        best = min(found, key=lambda c: c.stacked_seconds)
        naive = min(c.naive_seconds for c in found)
        print(f"{name:<12} inline {1000 * naive:7.1f} ms, stacked {1000 * best.stacked_seconds:6.1f} ms ({best.form}): "
              f"{naive / best.stacked_seconds:5.2f}x, apart {best.max_rel_difference:.1e}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
