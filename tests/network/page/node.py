"""Node for the tests of the page's modules; skipped with the reason where there is none."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.network.harness import ROOT

PAGE = ROOT / "fedfleet" / "network" / "page"
LEAST = 18


def node() -> str:
    """The path of a Node that is new enough."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("there is no Node here; install Node 18 or newer to test the modules of the page")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").split(".")[0]) < LEAST:
        pytest.skip(f"Node {version} is older than {LEAST}")
    return found


def run_script(text: str, folder: Path, **told: Any) -> Any:
    """What a module prints as JSON. It may import the page's modules as `$PAGE/name.js`; Its constant `told` holds this folder
    and what else is given."""
    script = folder / "script.mjs"
    constant = json.dumps({"folder": str(folder), **told})
    script.write_text(f"const told = {constant};\n{text.replace('$PAGE', PAGE.as_uri())}")
    done = subprocess.run([node(), str(script)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else None
