"""The template process of an emulated fleet: it loads what devices train with, and each device is a fork of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedfleet.core.trees import Tree
    from fedfleet.network.device.client_runtime import ClientRuntime
    from fedfleet.network.device.work import Fetch
    from fedfleet.network.pool.template import Emit, Message

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main() -> None:
    """Be the template of a pool."""
    for name in _ONE_THREAD:
        # Before numpy is loaded: results must not depend on the number of threads, and no thread may be there at a fork.
        os.environ[name] = "1"
    from fedfleet.network.pool.template import run_template

    run_template(_warm_up, _be_numpy_device)


def _warm_up(first: Message) -> None:
    """Build a client's half and train a step of it: everything that this loads is shared by all devices."""
    from fedfleet.app.assemble.device_runtime import build_client_runtime
    from fedfleet.core.passes import LocalPass
    from fedfleet.core.tensor_format import unpack_tree
    from fedfleet.network.device.client_runtime import Assignment, train_task
    from fedfleet.network.pool import emulated_device
    from fedfleet.network.protocol.frames import offer_to_bytes

    assert emulated_device  # loaded for the devices
    frozen = Path(first["frozen"])

    def fetch(name: str) -> Tree:
        del name  # its content is checked
        return unpack_tree(frozen.read_bytes())

    runtime = build_client_runtime(first["config"].encode(), None, fetch, None, "numpy")
    half = runtime.local_pass()
    if isinstance(half, LocalPass) and half.down is None:  # a model in a code takes a server to encode it
        offer = runtime.algorithm.offer(runtime.algorithm.init(runtime.params), runtime.client, {})
        train_task(runtime, Assignment(0, steps=1), offer_to_bytes(offer), {})


def _be_numpy_device(order: Message, emit: Emit) -> int:
    from fedfleet.network.pool.emulated_device import be_device

    return be_device(order, emit, _numpy_runtime)


def _numpy_runtime(config: bytes, data: Path | None, fetch: Fetch) -> ClientRuntime:
    from fedfleet.app.assemble.device_runtime import build_client_runtime

    return build_client_runtime(config, data, fetch, None, "numpy")


if __name__ == "__main__":
    main()
