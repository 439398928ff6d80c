"""A server rule and an aggregation of your own, checked and compared under attack: `python examples/own_rule.py`."""

from dataclasses import replace

import numpy as np

import fedfleet
from fedfleet.parts import fedavg, mean, method, with_rule
from fedfleet.testing import check_algorithm, check_fold


def bounded_steps(algorithm: fedfleet.Algorithm, *, longest: float = 0.2) -> fedfleet.Algorithm:
    """A server that makes no step longer than `longest`."""

    def rule(server, change):
        length = float(np.sqrt(sum(float(np.square(v).sum()) for v in change.values())))
        return {}, {name: min(1.0, longest / max(length, 1e-12)) * value for name, value in change.items()}

    return with_rule(algorithm, rule)


def middle_half() -> fedfleet.Fold:
    """Of every element, the mean of the middle half of the reports."""

    def combine(collected):
        result = {}
        for name in collected[0][0].update:
            ordered = np.sort([report.update[name] for report, _ in collected], axis=0)
            cut = len(ordered) // 4
            result[name] = ordered[cut : len(ordered) - cut].mean(0, dtype=np.float64).astype(np.float32)
        return result

    return replace(mean(), combine=combine)


bounded = method(bounded_steps, fedavg)
check_algorithm(bounded(lr=0.05))
check_fold(middle_half(), fedfleet.ServerState({"w": np.zeros((4, 3), np.float32)}))
fedfleet.register("algorithms", "bounded", bounded)
fedfleet.register("folds", "middle_half", middle_half)

attack = {"use": "sign_flip", "share": 0.2}
spec = {"task": "digits_logreg", "world": {"clients": 20}, "pace": {"cohort": 8}, "stop": {"rounds": 10}}
for name in ("fedavg", "bounded"):
    for fold in ("mean", "middle_half"):
        result = fedfleet.run({**spec, "algorithm": {"use": name, "fold": fold, "attack": attack}})
        print(f"{name} with {fold}: accuracy {result.metrics['accuracy']:.3f}, a fifth of the clients attacks")
