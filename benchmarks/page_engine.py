"""What a training step takes in the page's engine, in Node: with WebAssembly and without it.

    python -m benchmarks.page_engine [--tasks digits_cnn har_cnn] [--batch 16]

A phone takes several times as long. How long a browser on a phone takes, its own profile says (docs/how-to/phone.md).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

TASKS = ("digits_mlp", "digits_cnn", "har_cnn", "femnist_cnn")
_PAGE = Path(__file__).parents[1] / "fedfleet" / "network" / "page"
# Processor time, which other work on the machine disturbs least: the least of ten samples of 0.3 s or more each.
_SCRIPT = """
import { readFileSync } from "node:fs";
import { timeBatches } from "PAGE/local_training.js";
import { readMethod, readSheet } from "PAGE/method.js";
import { computePlainly, kernelName } from "PAGE/products.js";
const method = readMethod(readSheet(new Uint8Array(readFileSync(process.argv[2]))));
if (process.argv[3] === "plain") computePlainly();
let best = Infinity;
for (let i = 0; i < 10; i++) {
  const before = process.cpuUsage(), { steps } = await timeBatches(method), { user, system } = process.cpuUsage(before);
  best = Math.min(best, (user + system) / 1e6 / (steps + 1));
}
console.log(JSON.stringify({ kernel: kernelName(), step_ms: 1000 * best, rss_mb: process.memoryUsage().rss / 2 ** 20 }));
"""


def measure(node: str, task: str, batch: int) -> list[dict[str, float | str]]:
    """One row for each kind of products."""
    from fedfleet.app.assemble import assemble
    from fedfleet.app.assemble.client_config import client_config_for
    from fedfleet.app.spec import resolve
    from fedfleet.core.registry import builder, parameters

    entry = {"use": task, **({"synthetic": True, "samples": 400} if "synthetic" in parameters(builder("tasks", task)) else {})}
    spec = {"task": entry, "algorithm": {"batch": batch}, "world": {"clients": 2, "data": "iid"}, "pace": {"cohort": 2}}
    config = client_config_for(assemble(resolve(spec)), 0)
    with tempfile.TemporaryDirectory() as folder:
        sheet, script = Path(folder) / "sheet.json", Path(folder) / "time.mjs"
        sheet.write_bytes(config)
        script.write_text(_SCRIPT.replace("PAGE", _PAGE.as_uri()))
        rows: list[dict[str, float | str]] = []
        for how in ("fast", "plain"):
            done = subprocess.run([node, script, sheet, how], stdout=subprocess.PIPE, text=True, check=True)
            rows.append({"task": task, **json.loads(done.stdout)})
        return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--batch", type=int, default=16)
    asked = parser.parse_args()
    node = shutil.which("node")
    if node is None:
        raise SystemExit("there is no Node here; install Node 18 or newer")
    print(f"{'task':14s} {'products':12s} step ms  memory MB")
    for task in asked.tasks:
        for row in measure(node, task, asked.batch):
            print(f"{row['task']:14s} {row['kernel']:12s} {row['step_ms']:7.2f} {row['rss_mb']:10.0f}")


if __name__ == "__main__":
    main()
