"""The cost of a task, Eq. (3) of FLHetBench: |theta|/B_up + |theta|/B_down + |D| S_comp (+ unavailable time and t_break).

To this we add, for devices that say so, a fixed time for every training batch, whatever its size. Unavailable time
comes from the state source, t_break from the pacing policy: neither belongs to a device.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedfleet.core.records import Cost, Floats

# A training sample costs a forward and a backward pass, taken as three times the forward pass alone.
TRAINING_PASSES = 3.0


def stage_seconds(
    cost: Cost,
    down_kbps: Floats,
    up_kbps: Floats,
    seconds_per_sample: Floats,
    latency: Floats,
    *,
    seconds_per_batch: Floats | float = 0.0,
) -> dict[str, Floats]:
    """Seconds of latency, download, training and upload; speeds in kbit/s, `seconds_per_sample` is inference time.

    `seconds_per_batch` is what a training batch takes besides its samples; it is not tripled.

    >>> import numpy as np
    >>> one = Cost(np.array([10.0]), np.array([1e6]), np.array([1e6]))
    >>> stages = stage_seconds(one, np.array([8000.0]), np.array([4000.0]), np.array([0.1]), np.array([0.0]))
    >>> {name: float(seconds[0]) for name, seconds in stages.items()}
    {'latency': 0.0, 'download': 1.0, 'compute': 3.0, 'upload': 2.0}
    """
    bits = 8.0 / 1000.0
    compute = TRAINING_PASSES * cost.samples * seconds_per_sample
    if cost.batches is not None:
        compute = compute + seconds_per_batch * cost.batches
    down, up = cost.bytes_down * bits / down_kbps, cost.bytes_up * bits / up_kbps
    return {"latency": latency, "download": down, "compute": compute, "upload": up}


def scale_cost(cost: Cost, byte_scale: float, charge: float | None = None) -> Cost:
    """The cost as if the model had its declared size: bytes scale, samples and batches do not.

    With `charge`, every task is charged for so many samples, whatever it trains on; nothing is counted by batches then.
    """
    if charge is not None:
        cost = replace(cost, samples=np.full(len(cost.samples), float(charge)), batches=None)
    if byte_scale == 1.0:
        return cost
    return replace(cost, bytes_down=cost.bytes_down * byte_scale, bytes_up=cost.bytes_up * byte_scale)
