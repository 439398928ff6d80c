"""FedFleet on a small device: the command `fedfleet-device`.

The folder `modules` holds the part of FedFleet that a device imports. It is on the path of this command alone: a whole FedFleet
in the same environment keeps its own modules, and neither changes when the other is installed, upgraded or removed.
"""

import sys
from pathlib import Path

MODULES = Path(__file__).parent / "modules"


def main() -> None:
    """Run the command and exit."""
    sys.path.insert(0, str(MODULES))
    from fedfleet.app.cli.device_command import main as run_device_command

    run_device_command()
