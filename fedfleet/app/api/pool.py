"""`fedfleet pool`: a spec on an emulated fleet of device processes on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

from fedfleet.app.terminal.answers import Answer, Interrupted
from fedfleet.core.bounds import Ge, Gt, Le
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Clients

_Seconds = Annotated[float, Ge(0.0)]


def pool(
    spec: Path | None = None,
    *overrides: str,
    devices: Clients | None = None,
    minutes: Annotated[float, Gt(0.0), Le(1e6)] | None = None,
    cores: Annotated[float, Gt(0.0), Le(1024.0)] = 1.0,
    patience: _Seconds = 60.0,
    lease: Annotated[float, Ge(1.0)] = 600.0,
    out: Path | None = None,
    check: bool = False,
) -> Answer:
    """Run a spec on real device processes on this machine, each under the limits of its device in the spec's fleet.

    Args:
        spec: a spec file in TOML; its world says which devices are emulated, and when they can be reached.
        overrides: overrides of the spec, for example pace.cohort=20.
        devices: device processes; if there are fewer than clients, several clients take turns on one; default: one for each client.
        minutes: stop after that many minutes.
        cores: what the fastest device of the fleet gets of this machine's cores; the others get less, in proportion.
        patience: for how many seconds a round waits for the whole fleet, or for a cohort if clients come and go.
        lease: after how many seconds a task without a report is lost.
        out: the folder to write; default: runs/NAME-pool-DIGEST.
        check: measure what this machine can emulate, and stop.
    """
    if not (sys.platform.startswith("linux") and hasattr(os, "pidfd_open")):
        raise BadInput("fedfleet pool needs Linux (5.3 or later) to limit processes; elsewhere start devices with fedfleet device")
    if check:
        return check_machine_answer()
    if spec is None:
        raise BadInput("name a spec file, or give --check")
    from fedfleet.app.runs.pool_run import PoolOptions, run_pool
    from fedfleet.app.spec import load_spec

    options = PoolOptions(devices, cores, patience, lease, minutes)
    try:
        result = run_pool(load_spec(spec, overrides), out, options)
    except KeyboardInterrupt:
        raise Interrupted("interrupted; the devices and the server were stopped") from None
    return Answer({**result.answer, "pool": _summary(result.report)}, pool_text, exit_code=result.exit_code)


def check_machine_answer() -> Answer:
    """What this machine can emulate, and how truly."""
    from dataclasses import asdict

    from fedfleet.network.pool.machine_check import check_machine, load_warning
    from fedfleet.network.pool.processes import end_leftovers

    end_leftovers()
    warning = load_warning()
    rows = [{**asdict(one), "works": one.works} for one in check_machine()]
    remarks = [f"WARNING: {warning}"] if warning else []
    return Answer({"cores": os.cpu_count(), "limits": rows, "warnings": [warning] if warning else []}, check_text, remarks)


def check_text(answer: dict[str, Any]) -> str:
    """A line for each limit that was tried.

    >>> print(check_text({"limits": [{"limit": "cpu", "how": "control group", "wanted": 0.25, "measured": 0.2507,
    ...     "unit": "of a core", "reason": "", "works": True}, {"limit": "memory", "how": "control group", "wanted": None,
    ...     "measured": None, "unit": "", "reason": "no group can be made", "works": False}]}))
    cpu      control group: 0.251 of a core measured, 0.25 wanted (1.003)
    memory   control group: does not work here: no group can be made
    """
    return "\n".join(f"{row['limit']:<8} {row['how']}: {_measurement_text(row)}" for row in answer["limits"])


def _measurement_text(row: dict[str, Any]) -> str:
    if not row["works"]:
        return f"does not work here: {row['reason']}"
    if row["measured"] is None:
        return "works"
    ratio = f" ({row['measured'] / row['wanted']:.3f})" if row["wanted"] else ""
    return f"{row['measured']:.3g} {row['unit']} measured, {row['wanted']:g} wanted{ratio}"


def _summary(report: dict[str, Any]) -> dict[str, Any]:
    devices, tasks = report["devices"], report["tasks"]
    return {
        "devices": len(devices),
        "clients": len(report["clients"]),
        "seconds": report["seconds"],
        "restarts": sum(device["restarts"] for device in devices),
        "gave_up": sum(device["state"] == "gave up" for device in devices),
        "down": sum(device["state"] == "down" for device in devices),
        "tasks": len(tasks),
        "declined": sum(bool(task["declined"]) for task in tasks),
        "emulation": report["emulation"],
        "warnings": report["warnings"],
    }


def pool_text(answer: dict[str, Any]) -> str:
    """What people read of a pool."""
    pool = answer["pool"]
    score = answer.get("accuracy")
    lines = [
        f"{answer.get('commits', 0)} models in {pool['seconds']:.0f} s; {pool['clients']} clients on {pool['devices']} processes"
        + ("" if score is None else f"; accuracy {score:.4f}"),
        f"{pool['tasks']} tasks, {pool['declined']} declined; {pool['restarts']} restarts, {pool['gave_up']} devices gave up",
        *(f"{name}: {how}" for name, how in pool["emulation"].items()),
    ]
    return "\n".join([*lines, *([f"run folder: {answer['out']}"] if "out" in answer else [])])
