"""Many devices in one process, a thread each: `python -m tests.network.devices ADDRESS STORES CLIENT..` (over HTTP if it is a URL).

Each is the very device of the command line, with a store of its own; only torch is loaded once instead of twenty times.
"""

from __future__ import annotations

import sys
import threading
import traceback
from pathlib import Path

from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.network.device.client_loop import Device, DeviceOptions
from fedfleet.network.device.device_process import Trust, line_to
from fedfleet.network.device.device_store import DeviceStore


def say(text: str) -> None:
    """One line for whoever looks for the reason of a failure."""
    sys.stderr.write(f"{text}\n")


def attend(address: str, folder: Path, client: int) -> None:
    """Be one device until the run is over."""
    store, line = DeviceStore(folder / str(client)), line_to(address, Trust())
    try:
        device = Device(
            line,
            store,
            DeviceOptions(client=client, share_samples=True),
            build_client_runtime,
            lambda text: say(f"device {client}: {text}"),
        )
        device.run()
    except Exception:
        traceback.print_exc()
    finally:
        line.close()
        store.close()


def main() -> None:
    """Be all devices that the command line names."""
    address, folder, *clients = sys.argv[1:]
    threads = [threading.Thread(target=attend, args=(address, Path(folder), int(client))) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
