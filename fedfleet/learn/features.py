"""What can be put around any algorithm, where each keyword is a key of a spec's [algorithm]; and variants by client."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedfleet.core.aggregation import Fold
from fedfleet.core.codec import Codec
from fedfleet.core.cost import cost_of
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Epochs
from fedfleet.core.parts import Algorithm, Offer, Pass
from fedfleet.core.passes import LocalPass
from fedfleet.core.records import Assignments, Context, Cost, Ints, Report, ServerState, Settings
from fedfleet.learn.attacks import Attack, with_attack
from fedfleet.learn.compression import with_compression
from fedfleet.learn.differential_privacy import Privacy
from fedfleet.learn.folds import with_fold
from fedfleet.learn.local_parameters import with_local_leaves
from fedfleet.learn.personalisation import with_fine_tuning


def with_features(
    algorithm: Algorithm,
    *,
    fold: Fold | None = None,
    keep: str | None = None,
    fine_tune: Epochs | None = None,
    attack: Attack | None = None,
    private: Privacy | None = None,
    up: list[Codec] | None = None,
    down: list[Codec] | None = None,
    feedback: bool = False,
) -> Algorithm:
    """The algorithm with everything around it that was asked for, innermost first; without any of it, the algorithm itself."""
    if fold is not None:
        algorithm = with_fold(algorithm, fold)
    if keep is not None:
        algorithm = with_local_leaves(algorithm, keep=keep)
    if fine_tune is not None:
        algorithm = replace(with_fine_tuning(algorithm, tune_epochs=fine_tune), name=algorithm.name)
    if attack is not None:
        algorithm = with_attack(algorithm, attack)
    if private is not None:
        algorithm = private.around(algorithm)
    if up or down or feedback:
        algorithm = with_compression(algorithm, up=up or (), down=down or (), feedback=feedback)
    return algorithm


def with_variants(algorithm: Algorithm, variants: tuple[tuple[Ints, Algorithm], ...], clients: int) -> Algorithm:
    """The algorithm in which the listed clients are offered, train and cost what their variant says; a later variant wins."""
    if any(variant.adapt != algorithm.adapt for _, variant in variants):
        raise BadInput(
            f"override: clients of {algorithm.name!r} share one model, but an override would give some of them a different "
            "model; set "
            "the value in [algorithm], for all clients"
        )
    algorithms = (algorithm, *(variant for _, variant in variants))
    variant_of = np.zeros(clients, np.int64)
    for i, (members, _) in enumerate(variants, start=1):
        variant_of[members] = i

    def local(client: int, settings: Settings) -> Pass:
        return algorithms[variant_of[client]].local(client, settings)

    def offer(server: ServerState, client: int, settings: Settings) -> Offer:
        return algorithms[variant_of[client]].offer(server, client, settings)

    def cost(server: ServerState, assignments: Assignments, samples: Ints) -> Cost:
        base_cost = cost_of(algorithm, server, assignments, samples)
        names = ("samples", "bytes_down", "bytes_up", "batches")
        total = {n: _column(base_cost, n, len(samples)).copy() for n in names}
        for i, variant in enumerate(algorithms[1:], start=1):
            rows = np.flatnonzero(variant_of[assignments.clients] == i)
            if len(rows):
                variant_cost = cost_of(variant, server, assignments.only(rows), samples[rows])
                for name, column in total.items():
                    column[rows] = _column(variant_cost, name, len(rows))
        return Cost(**total)

    def accept(server: ServerState, report: Report, context: Context) -> Report:
        accept_variant = algorithms[variant_of[report.client]].accept
        return report if accept_variant is None else accept_variant(server, report, context)

    def tune(client: int) -> LocalPass | None:
        tune_variant = algorithms[variant_of[client]].tune
        return None if tune_variant is None else tune_variant(client)

    decodes = any(one.accept is not None for one in algorithms)
    priced = any(one.cost is not None for one in algorithms)
    return replace(
        algorithm,
        local=local,
        offer=offer,
        cost=cost if priced else None,
        accept=accept if decodes else None,
        tune=tune if any(one.tune is not None for one in algorithms) else None,
        priced_by_value=any(one.priced_by_value for one in algorithms),
    )


def _column(cost: Cost, name: str, n: int) -> np.ndarray:
    column = getattr(cost, name)
    return np.zeros(n) if column is None else column
