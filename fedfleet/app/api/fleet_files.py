"""`fedfleet fleet`: files of devices and states from what real devices showed."""

from __future__ import annotations

from pathlib import Path

from fedfleet.app.terminal.answers import Answer, check_writable
from fedfleet.app.terminal.text import metrics_text
from fedfleet.app.terminal.value_checks import one_of
from fedfleet.core.errors import BadInput, nearest_file

_SOURCES = ("both", "tasks", "profiles")


def from_run(folder: Path, *, out: Path, states: Path | None = None, source: str = "both") -> Answer:
    """Make a fleet of the devices of a served run: what their tasks took, what they measured of themselves, when they were there.

    Args:
        folder: the folder of a served run, also of one that is not finished.
        out: the devices file to write: .json, .csv or .npz.
        states: also write the states file of the same clients, from their check-ins.
        source: where seconds and speeds come from: tasks of the journal, profiles that devices sent, or both; of a client that has
            both, its tasks count.
    """
    from fedfleet.app.fleets import measured_fleet as fleets
    from fedfleet.app.runs.run_folder import open_run
    from fedfleet.world.bases.canonical_files import write_devices, write_states

    one_of("source", source, _SOURCES)
    check_writable("out", out)
    if not (folder / "wire").is_dir():
        if not folder.is_dir():
            raise BadInput(f"there is no run folder {folder}{nearest_file(folder)}")
        raise BadInput(f"{folder} is no served run; the devices of a simulation are those of its spec (world.devices)")
    _, events, _ = open_run(folder)
    rows = fleets.device_rows(events, fleets.stored_profiles(folder), source)  # type: ignore[arg-type]
    measured = len(rows)
    intervals = None if states is None else fleets.stored_checkins(folder)
    if states is not None and intervals is not None:
        check_writable("states", states)
        seen = set(intervals.clients.tolist())
        rows = {client: row for client, row in rows.items() if client in seen}
    if not rows:
        raise BadInput(f"{folder}: no task of it has ended, and no device sent a profile, so nothing is known of its devices")
    names = {client: f"client-{client}" for client in rows}
    write_devices(str(out), fleets.fleet_table({names[client]: row for client, row in rows.items()}))
    if states is not None and intervals is not None:
        write_states(str(states), fleets.availability(intervals, names))
    unknown = sum("down_kbps" not in row for row in rows.values())
    result = {
        "devices": len(rows), "out": str(out), "states": None if states is None else str(states),
        "links_assumed": unknown, "never_seen": measured - len(rows),
    }  # fmt: skip
    return Answer(result, metrics_text, _remarks(unknown, measured - len(rows)))


def from_profiles(*files: Path, out: Path) -> Answer:
    """Make one fleet of several devices files, such as those of `fedfleet profile`, and of profiles that devices sent to a server.

    Args:
        files: devices files, and profiles.jsonl of served runs; of a device that is in several, the last counts.
        out: the devices file to write: .json, .csv or .npz.
    """
    from fedfleet.app.fleets import measured_fleet as fleets
    from fedfleet.world.bases.canonical_files import write_devices

    if not files:
        raise BadInput(
            "give the files of at least one device, for example: fedfleet fleet from-profiles devices.json --out fleet.json"
        )
    check_writable("out", out)
    rows = {name: row for file in files for name, row in fleets.rows_of_file(Path(file)).items()}
    if not rows:
        raise BadInput(f"{files[0]} holds no profile")
    write_devices(str(out), fleets.fleet_table(rows))
    unknown = sum("down_kbps" not in row for row in rows.values())
    return Answer({"devices": len(rows), "out": str(out), "links_assumed": unknown}, metrics_text, _remarks(unknown, 0))


def _remarks(unknown: int, unseen: int) -> list[str]:
    result: list[str] = []
    if unknown:
        result.append(
            f"the download speed of {unknown} of the devices was not measured; 100 Mbit/s, or their upload speed, is assumed"
        )
    if unseen:
        result.append(f"{unseen} of the devices were left out: the server recorded no check-in of theirs")
    return result
