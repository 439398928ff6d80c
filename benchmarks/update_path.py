"""How many of our files one update runs through: `python -m benchmarks.update_path [--tree FOLDER] [--list] [--json]`.

Two runs are compared that differ in their number of rounds alone, simulated and served to three device processes. A file that runs more
often in the longer one is on the path of an update: from the work that a device is given to the model that its report enters. Files
that run as often in both (starting, assembling, the page at the end) do not count. FOLDER is another checkout, to compare with.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
DEVICES, SHORT, LONG = 3, 3, 9

# Loaded by every Python process of the run: counts the calls by file, and keeps the counts on the disk.
TRACER = """
import atexit, json, os, sys, threading, time
_home, _out, _calls = os.environ["TRACE_HOME"], os.environ["TRACE_OUT"], {}
def _profile(frame, event, arg):
    if event == "call":
        name = frame.f_code.co_filename
        if name.startswith(_home): _calls[name] = _calls.get(name, 0) + 1
def _save():
    path = os.path.join(_out, f"{os.getpid()}.json")
    with open(path + ".new", "w") as file: json.dump([sys.argv, dict(_calls)], file)
    os.replace(path + ".new", path)
def _save_often():
    while True:
        time.sleep(0.2)
        try: _save()
        except (OSError, RuntimeError): pass
threading.setprofile(_profile); sys.setprofile(_profile)
threading.Thread(target=_save_often, daemon=True).start(); atexit.register(_save)
"""

SPEC = f"""seed = 1
[task]
use = "digits_logreg"
[world]
clients = {DEVICES}
[pace]
use = "readiness"
cohort = {DEVICES}
[stop]
rounds = ROUNDS
[run]
execute = "inline"
"""


def calls_of(folder: Path, tree: Path) -> Counter[str]:
    """Calls by file, over all processes of a run."""
    counts: Counter[str] = Counter()
    for path in folder.glob("*.json"):
        for name, calls in json.loads(path.read_text())[1].items():
            counts[str(Path(name).relative_to(tree / "fedfleet"))] += calls
    return counts


def run(tree: Path, served: bool, rounds: int, folder: Path) -> Counter[str]:
    """One run under the tracer."""
    trace, site = folder / "trace", folder / "site"
    trace.mkdir(parents=True)
    site.mkdir()
    (site / "sitecustomize.py").write_text(TRACER)
    spec = folder / "spec.toml"
    spec.write_text(SPEC.replace("ROUNDS", str(rounds)))
    environment = {
        **os.environ, "PYTHONPATH": f"{site}:{tree}", "TRACE_HOME": str(tree / "fedfleet"), "TRACE_OUT": str(trace),
    }  # fmt: skip
    fedfleet = (sys.executable, "-c", "import sys; from importlib import import_module as load\n"
                "try: main = load('fedfleet.app.cli.main').main\nexcept ImportError: main = load('fedfleet.app.cli').main\nsys.exit(main())")  # fmt: skip
    quiet = {"env": environment, "cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if not served:
        subprocess.run([*fedfleet, "run", str(spec), "--out", "out", "--json"], **quiet, check=True, timeout=300)
        return calls_of(trace, tree)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    server = subprocess.Popen([*fedfleet, "serve", str(spec), "--out", "out", "--address", address, "--json"], **quiet)
    time.sleep(3)
    devices = [
        subprocess.Popen([*fedfleet, "device", "--server", address, "--client", str(i), "--store", f"store{i}"], **quiet)
        for i in range(DEVICES)
    ]
    try:
        if server.wait(300):
            raise SystemExit(f"the server under the tracer ended with {server.returncode}")
        for device in devices:
            device.wait(60)
    finally:
        for process in (server, *devices):
            if process.poll() is None:
                process.kill()
    return calls_of(trace, tree)


def crossed(tree: Path, served: bool) -> dict[str, float]:
    """The files that an update runs through, with their calls per update."""
    with tempfile.TemporaryDirectory() as folder:
        short = run(tree, served, SHORT, Path(folder) / "short")
        long = run(tree, served, LONG, Path(folder) / "long")
    updates = DEVICES * (LONG - SHORT)
    # Devices that wait, and loops that turn by the clock, differ a little between two runs: half a call per round is the least.
    least = (LONG - SHORT) / 2
    return {name: (long[name] - short[name]) / updates for name in sorted(long) if long[name] - short[name] >= least}


# Not on the way of a report on the server: what devices run, what watches the server, what loads it.
BESIDE = ("device", "operations", "stress")


def on_server(files: dict[str, float]) -> list[str]:
    """The files of the server itself that a report runs through, from the door to the model."""
    own = [name for name in files if name.startswith(("network/", "runtime/wire/"))]
    return [name for name in own if not any(f"/{folder}/" in name for folder in BESIDE)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout to look at; default: this one")
    parser.add_argument("--list", action="store_true", help="name the files, with their calls per update")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    result = {kind: crossed(asked.tree.resolve(), kind == "served") for kind in ("simulated", "served")}
    if asked.json:
        print(json.dumps(result, indent=2))
        return
    for kind, files in result.items():
        side = Counter(name.split("/")[0] for name in files)
        own = f", {len(on_server(files))} of them the server's own" if kind == "served" else ""
        print(f"{kind}: {len(files)} files{own} ({', '.join(f'{name} {count}' for name, count in side.items())})")
        for name, calls in files.items() if asked.list else ():
            print(f"  {calls:8.1f}  {name}")


if __name__ == "__main__":
    main()
