"""Public conformance checks: run them over your own parts before you register them.

    from fedfleet.testing import check_selector
    check_selector(my_selector())

Each raises AssertionError with the rule that was broken.
"""

from fedfleet.testing.executing import check_executor, check_kinks
from fedfleet.testing.learning import check_algorithm, check_fold
from fedfleet.testing.sources import check_data_source, check_device_source, check_partition, check_state_source
from fedfleet.testing.steering import check_policy, check_selector

__all__ = [
    "check_algorithm",
    "check_data_source",
    "check_device_source",
    "check_executor",
    "check_fold",
    "check_kinks",
    "check_partition",
    "check_policy",
    "check_selector",
    "check_state_source",
]
