"""Builds the wheel `fedfleet-device`: the modules that a device imports, and its command. The same tree gives the same bytes.

A build backend of its own, since it takes files from the tree around it and needs nothing that is not in Python.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from device_modules import ROOT, device_modules

HERE = Path(__file__).parent
_DATE = (1980, 1, 1, 0, 0, 0)  # of every file in the archive


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Nothing."""
    del config_settings
    return []


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Write the wheel into a folder; its name."""
    del config_settings, metadata_directory
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version = project["name"].replace("-", "_"), fedfleet_version()
    info = f"{name}-{version}.dist-info"
    files = {
        **package_files(),
        f"{info}/METADATA": metadata(project, version).encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: fedfleet\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": _entry_points(project).encode(),
        f"{info}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    record = "".join(f"{path},{_digest(content)},{len(content)}\n" for path, content in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    result = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / result, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, _DATE)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, content)
    return result


def package_files() -> dict[str, bytes]:
    """The command's own files and the modules of FedFleet, by their places in the wheel."""
    own = {f"fedfleet_device/{path.name}": path.read_bytes() for path in sorted((HERE / "fedfleet_device").glob("*.py"))}
    modules = {path.relative_to(ROOT).as_posix(): path for path in device_modules().values()}
    return own | {f"fedfleet_device/modules/{place}": path.read_bytes() for place, path in sorted(modules.items())}


def fedfleet_version() -> str:
    """The version of FedFleet, without importing it."""
    tree = ast.parse((ROOT / "fedfleet/__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__version__":
            return str(ast.literal_eval(node.value))
    raise SystemExit("fedfleet/__init__.py has no __version__")


def metadata(project: dict[str, Any], version: str) -> str:
    """What an installer reads."""
    lines = [
        "Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version}", f"Summary: {project['description']}",
        f"Requires-Python: {project['requires-python']}", f"License-Expression: {project['license']}", "License-File: LICENSE",
        *(f"Requires-Dist: {one}" for one in project["dependencies"]),
    ]  # fmt: skip
    for extra, packages in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {one}; extra == "{extra}"' for one in packages)]
    return "\n".join(lines) + "\n"


def _entry_points(project: dict[str, Any]) -> str:
    return "[console_scripts]\n" + "".join(f"{name} = {target}\n" for name, target in project["scripts"].items())


def _digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
