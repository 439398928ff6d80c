"""That it learns: the promised accuracy, and the two bounds around it."""

import fedfleet

DIGITS = {
    "seed": 7,
    "task": "digits_cnn",
    "world": {"clients": 100, "data": {"use": "dirichlet", "alpha": 0.5}},
    "pace": {"cohort": 20},
    "stop": {"rounds": 200, "target_accuracy": 0.9},
}


def test_fedavg_reaches_ninety_percent_on_digits():
    result = fedfleet.run(DIGITS)
    assert result.metrics["stopped_by"] == "target_accuracy"
    assert result.metrics["accuracy"] >= 0.9
    assert result.metrics["rounds"] <= 200


def test_the_bounds_enclose_it():
    quick = {
        **DIGITS,
        "task": "digits_logreg",
        "stop": {"rounds": 30},
        "world": {"clients": 20, "data": {"use": "dirichlet"}},
    }
    together = fedfleet.run(quick, "algorithm.use=centralized").metrics
    apart = fedfleet.run(quick, "algorithm.use=local_only").metrics
    between = fedfleet.run(quick).metrics
    assert together["accuracy"] >= between["accuracy"] - 0.01
    assert together["accuracy_clients"] > apart["accuracy_clients"] - 0.1
    assert apart["bytes_up"] == apart["bytes_down"] == together["bytes_up"] == 0.0
    assert apart["accuracy"] < 0.5, "no global model is learnt"
    assert apart["accuracy_clients"] > 0.6, "but the clients' own are"
