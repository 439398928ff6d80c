"""An algorithm from functions with the names of Flower's strategies and clients: `algorithm_from_strategy`.

Parameters are lists of arrays in the order of the model's `state_dict`. The server hands whole models to `aggregate_fit`, and what
it gives back becomes the mean update, so that server rules, codecs and everything else go around it as around any algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedfleet.core.aggregation import Aggregate, CollectedReports, Fold
from fedfleet.core.cost import derive_cost
from fedfleet.core.errors import BadInput, Refused, RunFailed
from fedfleet.core.parts import Algorithm, Dataset, Job, Offer, Pass
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Assignments, Context, Cost, Ints, Report, ServerState, Settings
from fedfleet.core.rng import hash_keys
from fedfleet.core.trees import Array, Tree, mismatch, tree_nbytes
from fedfleet.learn.fedavg import add_to_model, fedavg
from fedfleet.learn.global_generators import seeded_generators

Arrays = list[Array]
Config = Mapping[str, Any]  # numbers and texts by name
_ORDER, _ROUND, _MODEL = "strategy/order", "strategy/round", "strategy/model/"
_NUMBER, _TEXT = "strategy/number/", "strategy/text/"
_INTACT = "hands whole models to aggregate_fit"
_ELSEWHERE = {
    "evaluate": "FedFleet evaluates every model itself; give `metrics=` or `on_commit=` to fedfleet.run",
    "configure_evaluate": "FedFleet evaluates every model itself; choose when with stop.evaluate_every",
    "aggregate_evaluate": "scores of single clients are in the report of a run; give `metrics=` to fedfleet.run for your own",
    "client_manager": "who takes part is decided by a Selector, in choose.use",
}


@dataclass(frozen=True, slots=True)
class Client:
    """Who sent a result, or will be asked: its number as text."""

    cid: str


@dataclass(frozen=True, slots=True)
class FitRes:
    """What a client's training gave: its whole model as a list of arrays, how many samples it trained on, and other numbers."""

    parameters: Arrays
    num_examples: int
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])


Results = list[tuple[Client, FitRes]]
AggregateFit = Callable[[int, Results, list[Any]], tuple[Arrays | None, Config]]
Fit = Callable[[Arrays, dict[str, Any], tuple[Array, Array]], tuple[Sequence[Any], int, Mapping[str, Any]]]
ConfigureFit = Callable[[int, Arrays, Client], Config]


def algorithm_from_strategy(
    *,
    aggregate_fit: AggregateFit,
    fit: Fit | None = None,
    configure_fit: ConfigureFit | None = None,
    initialize_parameters: Callable[[Any], Arrays | None] | None = None,
    train: Algorithm | None = None,
    name: str = "strategy",
    **others: Any,
) -> Algorithm:
    """An algorithm from functions that are named, and called, as those of Flower's strategies and clients.

    `aggregate_fit(server_round, results, failures)` gets (client, result) pairs, where a result has `parameters`, `num_examples`
    and `metrics`, and gives (parameters, metrics); its metrics are not kept, and `failures` is always empty: lost tasks and
    refused reports are in the journal. `fit(parameters, config, (x, y))` is the client's training on its own samples, and gives
    (parameters, number of samples, metrics); global random generators are seeded for each call, so that runs can be repeated.
    Without it clients train as those of `train` do (default: `fedavg()`), which is faster. `configure_fit(server_round, parameters,
    client)` gives the config for one client; who takes part is decided by a Selector. `initialize_parameters(None)` gives the first
    model, or None for the task's own. `server_round` counts commits, from 1.

    What a strategy object remembers from round to round is lost when a run is resumed: put `with_rule` around the result instead.
    """
    for other in others:
        why = _ELSEWHERE.get(
            other, f"known are aggregate_fit, fit, configure_fit, initialize_parameters, train, name, not {other!r}"
        )
        raise BadInput(f"algorithm_from_strategy: {other}: {why}")
    if configure_fit is not None and fit is None:
        raise BadInput(
            "algorithm_from_strategy: configure_fit gives settings to `fit`, and there is none; give `fit` too, or neither"
        )
    if fit is not None and train is not None:
        raise BadInput("algorithm_from_strategy: clients train by `fit` or as those of `train` do; give one of the two")
    base = train or fedavg()
    if not isinstance(base.local(0, NO_SETTINGS), LocalPass) or base.accept is not None or not base.fold.streams:
        raise BadInput(
            f"algorithm_from_strategy: train: {base.name!r} reads or adds up reports in a way of its own; use fedavg(..)"
        )

    def init(params: Tree) -> ServerState:
        first = None if initialize_parameters is None else initialize_parameters(None)
        order = np.array([sorted(params).index(n) for n in params], np.int32)
        model = params if first is None else _tree_of(list(params), first, params, "initialize_parameters")
        server = base.init(model)
        return replace(server, extra={**server.extra, _ORDER: order, _ROUND: np.zeros((), np.int64)})

    def offer(server: ServerState, client: int, settings: Settings) -> Offer:
        plain = base.offer(server, client, settings)
        if fit is None:
            return plain
        config: Tree = {}
        if configure_fit is not None:
            model = [v.copy() for v in _list_of(server, server.params)]
            config = _config_tree(configure_fit(_round_of(server), model, Client(str(client))))
        return Offer(plain.params, {**plain.extra, _ORDER: server.extra[_ORDER], **config})

    def accept(server: ServerState, report: Report, context: Context) -> Report:
        del context
        odd = mismatch(report.update, server.params)
        if odd is not None:
            raise Refused(odd)
        model = {_MODEL + n: v for n, v in server.params.items()}
        return replace(report, update={**report.update, **model, **{n: server.extra[n] for n in (_ORDER, _ROUND)}})

    def like(server: ServerState) -> Tree:
        return {
            **server.params,
            **{_MODEL + n: v for n, v in server.params.items()},
            **{n: server.extra[n] for n in (_ORDER, _ROUND)},
        }

    def apply(server: ServerState, aggregate: Aggregate) -> ServerState:
        return count_round(add_to_model(server, aggregate))

    def cost(server: ServerState, assignments: Assignments, samples: Ints) -> Cost:
        sent = np.full(len(samples), float(tree_nbytes(server.params)))
        return replace(derive_cost(result, server, assignments, samples), bytes_up=sent)

    opaque = None if fit is None else _client_pass(fit)
    local: Callable[[int, Settings], Pass] = base.local if opaque is None else lambda client, settings: opaque
    result = Algorithm(
        name, init, offer, local, fold=Fold(like, combine=_combine(aggregate_fit), intact=_INTACT), apply=apply, accept=accept,
        tick=count_round,
    )  # fmt: skip
    return replace(result, cost=cost)


def count_round(server: ServerState) -> ServerState:
    """The state after one more commit."""
    return replace(server, extra={**server.extra, _ROUND: np.asarray(server.extra[_ROUND] + 1)})


def _combine(aggregate_fit: AggregateFit) -> Callable[[CollectedReports], Tree | None]:
    def combine(collected: CollectedReports) -> Tree | None:
        shared = collected[0][0].update
        names = [n.removeprefix(_MODEL) for n in shared if n.startswith(_MODEL)]
        ordered, before = _ordered(names, shared[_ORDER]), {n: shared[_MODEL + n] for n in names}
        results: Results = []
        for report, _ in collected:
            model = {n: _moved(before[n], report.update[n]) for n in names}
            numbers = {n: v for n, v in report.stats.items() if n != "samples"}
            results.append((Client(str(report.client)), FitRes([model[n] for n in ordered], round(report.weight), numbers)))
        answer: Any = aggregate_fit(int(shared[_ROUND]) + 1, results, [])
        if not isinstance(answer, tuple) or len(answer) != 2:  # pyright: ignore[reportUnknownArgumentType]
            raise RunFailed(f"aggregate_fit must give (parameters, metrics), and gave {type(answer).__name__}")
        if answer[0] is None:
            return None
        after = _tree_of(ordered, answer[0], before, "aggregate_fit")  # pyright: ignore[reportUnknownArgumentType]
        return {n: v if v.dtype.kind in "biu" else (v.astype(np.float64) - before[n]).astype(np.float32) for n, v in after.items()}

    return combine


def _moved(before: Array, update: Array) -> Array:
    """A client's leaf, from the server's and the update; counters travel as they are."""
    return before + update if np.issubdtype(before.dtype, np.floating) else update


def _client_pass(fit: Fit) -> Callable[[Job, Dataset], Report]:
    """The client's half: its whole model goes in and comes out as a list."""

    def local(job: Job, dataset: Dataset) -> Report:
        params, extra = job.offer.params, job.offer.extra
        ordered = _ordered(list(params), extra[_ORDER])
        samples = dataset.x[job.rows], dataset.y[job.rows]
        seed = int(hash_keys(job.seed, "strategy", np.array([job.key], np.uint64), job.task)[0] % np.uint64(2**31))
        with seeded_generators(seed):
            model, count, metrics = fit([params[n].copy() for n in ordered], _config_of(extra), samples)
        after = _tree_of(ordered, model, params, "fit")
        update = {n: after[n] - v if np.issubdtype(v.dtype, np.floating) else after[n] for n, v in params.items()}
        numbers = {n: float(v) for n, v in metrics.items() if isinstance(v, int | float | np.number)}
        return Report(job.task, job.client, update, float(count), {**numbers, "samples": float(len(job.rows))})

    return local


# ---- lists and trees ----------------------------------------------------------------------------------------------


def _ordered(names: list[str], order: Array) -> list[str]:
    """Names in the order of the model's state_dict: what travels comes in the order of the alphabet."""
    by_name = sorted(names)
    return [by_name[i] for i in order.tolist()]


def _list_of(server: ServerState, tree: Tree) -> Arrays:
    return [tree[n] for n in _ordered(list(tree), server.extra[_ORDER])]


def _round_of(server: ServerState) -> int:
    return int(server.extra[_ROUND]) + 1


def _tree_of(names: list[str], values: Sequence[Any], like: Tree, what: str) -> Tree:
    """A list as a tree; what does not fit the model is named."""
    if len(values) != len(names):
        raise RunFailed(f"{what} gave {len(values)} arrays, and the model has {len(names)}: {', '.join(names[:6])}")
    result: Tree = {}
    for name, value in zip(names, values, strict=True):
        array = np.asarray(value)
        if array.shape != like[name].shape:
            raise RunFailed(f"{what} gave an array of shape {array.shape} for {name!r}, and the model has {like[name].shape}")
        result[name] = array.astype(like[name].dtype)
    return result


def _config_tree(config: Any) -> Tree:
    """A config as it travels: numbers and texts."""
    if not isinstance(config, Mapping):
        raise RunFailed(
            f"configure_fit must give the config for one client, a dictionary, and gave {type(config).__name__}; who takes part is "
            "decided by a Selector (choose.use)"
        )
    result: Tree = {}
    for name, value in config.items():  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, str):
            result[f"{_TEXT}{name}"] = np.frombuffer(value.encode(), np.uint8)
        elif isinstance(value, bool | int | float | np.number | np.bool_):
            result[f"{_NUMBER}{name}"] = np.asarray(value)
        else:
            raise RunFailed(f"configure_fit: {name!r} is a {type(value).__name__}; give numbers and texts")  # pyright: ignore
    return result


def _config_of(extra: Tree) -> dict[str, Any]:
    numbers = {n.removeprefix(_NUMBER): v.item() for n, v in extra.items() if n.startswith(_NUMBER)}
    return {**numbers, **{n.removeprefix(_TEXT): v.tobytes().decode() for n, v in extra.items() if n.startswith(_TEXT)}}
