"""One round of local training by method, against our own inline executor and against FedAvg's round: what does stacking give
momentum, Adam, a method with client memory, one with a hook, a hundred different learning rates, and every registered method?

    python -m benchmarks.methods [--only NAME ..]                            # CPU: digits_mlp, 50 clients, against inline
    python -m benchmarks.methods --device cuda --task femnist_cnn --cohort 100 --steps 12 --batch 16 [--tf32] [--jax] [--pfl]

On a GPU a round ends with the exact sums; --pfl times pfl-research's own FedAvg, FedProx and SCAFFOLD on the same work, --jax
the same FedAvg work as one compiled jit(vmap(scan)) in JAX.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from fedfleet.app.assemble.algorithm import adapt_task
from fedfleet.app.machine.cohort_speed import synthetic_task
from fedfleet.app.spec.table_checks import build_part, resolve_part
from fedfleet.core.errors import BadInput
from fedfleet.core.part_facts import FleetFacts, ModelOf, RunFacts
from fedfleet.core.parts import Algorithm, Task
from fedfleet.core.passes import NO_SETTINGS, ConstantTerm, LocalPass, Passed, Slot, zeros_like
from fedfleet.core.registry import names
from fedfleet.core.rng import client_keys
from fedfleet.executors.bench import Bench, algorithm_jobs, compare_algorithm, fold_work, time_work
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.executors.stacked.form_choice import candidates
from fedfleet.learn.codecs.quantisation import int4, int8
from fedfleet.learn.composition import with_pass
from fedfleet.learn.compression import with_compression
from fedfleet.learn.objectives import with_term
from fedfleet.learn.zoo import fedavg
from fedfleet.tasks.model_parts import model_facts
from fedfleet.tasks.narrow_models import shape_at

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
    drift = ConstantTerm(lambda start, carried: carried.memory["control"])
    more = with_pass(with_term(algorithm, drift), "", lambda p: replace(p, slots=(CONTROL,), after=(_move_control,)))
    return replace(more, name="control variates")


def many_rates(algorithm: Algorithm) -> Algorithm:
    """Every client with a learning rate of its own."""

    def local(client: int, settings: Any) -> LocalPass:
        inner = algorithm.local(client, settings)
        assert isinstance(inner, LocalPass)
        return replace(inner, rate=inner.rate * (0.5 + client / 100))

    return replace(algorithm, local=local, name="own rates")


Work = tuple[Algorithm, Task]  # a method, and the task as it trains it


def registered(task: Task, batch: int, clients: int) -> dict[str, Work]:
    """Every registered method that takes this model and whose clients train in stacks; FedAvg first."""
    facts: dict[Any, Any] = {
        RunFacts: RunFacts(clients, 0, 100),
        ModelOf: cache(lambda: model_facts(task)),
        FleetFacts: FleetFacts(cache(partial(shape_at, task)), client_keys(clients)),
    }
    found: dict[str, Work] = {}
    for name in sorted(names("algorithms"), key=lambda n: (n != "fedavg", n)):
        try:
            table = resolve_part("algorithms", {"use": name, "lr": 0.01, "batch": batch}, name)
            made: Algorithm = build_part("algorithms", table, facts)
            fitted = adapt_task(made, task, 0)
            made.init(fitted.init(0))
        except BadInput as wrong:
            print(f"{name:<16} is left out: {wrong}")
            continue
        if not made.pooled and isinstance(made.local(0, NO_SETTINGS), LocalPass):
            found[name] = made, fitted
    return found


def methods(task: Task, batch: int, clients: int) -> dict[str, Work]:
    """The methods by name."""
    plain: dict[str, Any] = {"lr": 0.01, "batch": batch}
    base = fedavg(**plain)
    more = {
        "int8 up": with_compression(base, up=[int8()]),
        "int4 up, feedback": with_compression(base, up=[int4()], feedback=True),
        "momentum": fedavg(momentum=0.9, **plain),
        "adam": fedavg(lr=0.001, batch=batch, optimiser="adam"),
        "memory": controlled(base),
        "after hook": with_pass(base, "", lambda p: replace(p, after=(_clip,))),
        "own rates": many_rates(base),
    }
    return registered(task, batch, clients) | {name: (algorithm, task) for name, algorithm in more.items()}


def pfl_rounds(asked: argparse.Namespace) -> dict[str, float]:
    """Seconds of a round of the same work by pfl-research, for the methods that it has; nothing where it is not installed."""
    from benchmarks.peers.making import make_work
    from benchmarks.peers.systems import Entry, carry_out
    from benchmarks.peers.work import Work as Sizes

    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        sizes = Sizes(asked.task, asked.cohort, asked.steps, asked.batch, 0.01, 2, 5, asked.device, asked.tf32)
        make_work(Path(folder), sizes)
        for name in ("fedavg", "fedprox", "scaffold"):
            entry = Entry("pfl", name, "pfl_side", {"threads": 1, "method": name})
            outcome = carry_out(entry, Path(folder), sys.executable, 240.0)
            if outcome.failed:
                print(f"pfl {name}: {outcome.failed}")
            else:
                found[name] = sorted(outcome.seconds)[len(outcome.seconds) // 2]
    return found


def jax_round(bench: Bench, repeats: int, tf32: bool) -> float:
    """The same FedAvg work on femnist_cnn, compiled whole by JAX: vmap over clients of a scan over steps, then the mean."""
    # Not among our dependencies: only where it is installed.
    import jax  # pyright: ignore[reportMissingImports]
    import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
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
    parser.add_argument("--pfl", action="store_true")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", nargs="+", default=())
    asked = parser.parse_args()
    task = synthetic_task(asked.task, max(200, min(asked.cohort * asked.steps * asked.batch, 20_000)))
    bench = Bench(task, asked.cohort, asked.steps, asked.batch, asked.device, 1, asked.tf32, "merged", asked.repeats)
    what = f"{asked.task}, {asked.cohort} clients x {asked.steps} steps x {asked.batch}, {asked.device}"
    print(f"{what}{', tf32' if asked.tf32 else ''}")
    chosen = {n: a for n, a in methods(task, asked.batch, asked.cohort).items() if not asked.only or n in asked.only}
    if asked.device == "cpu":
        _on_cpu(bench, chosen)
        return
    import torch

    base, plain = 0.0, stacked_executor(task, device=asked.device, tf32=asked.tf32)
    theirs = pfl_rounds(asked) if asked.pfl else {}
    for name, (algorithm, fitted) in chosen.items():
        execute = plain if fitted is task else stacked_executor(fitted, device=asked.device, tf32=asked.tf32)
        jobs = algorithm_jobs(replace(bench, task=fitted), algorithm)
        # What is priced by its values is trained before it is known who arrives, and folded from reports.
        in_place = None if algorithm.priced_by_value else fold_work(execute, algorithm, fitted, jobs)
        work = in_place or (lambda run=execute.train, jobs=jobs: list(run(jobs)))
        start = time.perf_counter()
        for _ in range(3):  # recording, and memory that is there
            work()
        torch.cuda.synchronize()
        warm = time.perf_counter() - start
        seconds, _ = time_work(work, asked.device, asked.repeats)
        base = base or seconds
        print(
            f"{name:<18} {1000 * seconds:8.1f} ms a round, {seconds / base:5.2f}x fedavg, warming up {warm:.1f} s"
            + (f", pfl {1000 * theirs[name]:.0f} ms: {theirs[name] / seconds:.1f}x" if name in theirs else ""),
            flush=True,
        )
    if asked.jax:
        seconds = jax_round(bench, asked.repeats, asked.tf32)
        print(f"{'jax vmap':<12} {1000 * seconds:8.1f} ms a round, {seconds / base:5.2f}x fedavg (same work, compiled whole)")


def _on_cpu(bench: Bench, chosen: dict[str, Work]) -> None:
    for name, (algorithm, fitted) in chosen.items():
        own = replace(bench, task=fitted)
        found = [compare_algorithm(replace(own, form=f, threads=n), algorithm) for f, n in candidates("cpu", 2)]
        best = min(found, key=lambda c: c.stacked_seconds)
        naive = min(c.naive_seconds for c in found)
        print(f"{name:<18} inline {1000 * naive:7.1f} ms, stacked {1000 * best.stacked_seconds:6.1f} ms ({best.form}): "
              f"{naive / best.stacked_seconds:5.2f}x, apart {best.max_rel_difference:.1e}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
