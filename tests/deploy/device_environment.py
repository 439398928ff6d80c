"""The wheel of small devices in an environment of its own, which holds numpy, protobuf and what a test names besides; offline."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEVICE = ROOT / "packaging/device"
# The files of a package by the name of its distribution; libraries lie beside some of them.
PACKAGES = {"numpy": ("numpy", "numpy.libs"), "protobuf": ("google/protobuf", "google/_upb"), "grpcio": ("grpc",)}
_NEEDS = {"grpcio": ("typing_extensions.py",)}


@dataclass(frozen=True, slots=True)
class DeviceEnvironment:
    """An environment with the wheel in it: its Python, the command, and where the wheel's files lie."""

    folder: Path
    wheel: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin/python"

    @property
    def command(self) -> Path:
        """The command `fedfleet-device`."""
        return self.folder / "bin/fedfleet-device"

    @property
    def packages(self) -> Path:
        """Where packages are installed."""
        return next(self.folder.glob("lib/python*/site-packages"))

    @property
    def installed(self) -> Path:
        """The wheel's own files."""
        return self.packages / "fedfleet_device"

    def run(self, *words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        """Its Python with these words, in an environment without our paths."""
        return subprocess.run([self.python, *words], capture_output=True, text=True, env=environment(**more), cwd=self.folder)


def environment(**more: str) -> dict[str, str]:
    """The variables of this process, but for the paths of its Python."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | more


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this tree, as `make device-wheel` does."""
    pip("wheel", "--no-build-isolation", "--wheel-dir", str(folder), str(DEVICE))
    (result,) = folder.glob("*.whl")
    return result


def make_environment(folder: Path, *packages: str) -> DeviceEnvironment:
    """A fresh environment with the wheel and these distributions, whose files are those of this one."""
    wheel = build_wheel(folder)
    made = DeviceEnvironment(folder / "environment", wheel)
    venv.create(made.folder, with_pip=False)
    here = Path(sysconfig.get_path("purelib"))
    for distribution in packages:
        for name in (*PACKAGES[distribution], *_NEEDS.get(distribution, ())):
            if (here / name).exists():
                (made.packages / name).parent.mkdir(exist_ok=True)
                (made.packages / name).symlink_to(here / name)
    pip("install", "--target", str(made.packages), str(wheel))
    shutil.move(made.packages / "bin/fedfleet-device", made.command)
    text = made.command.read_text()
    made.command.write_text(f"#!{made.python}\n{text.partition(chr(10))[2]}")
    return made


def pip(*words: str) -> None:
    """pip of this environment, which asks no other machine for anything."""
    quiet = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps")
    done = subprocess.run([sys.executable, "-m", "pip", words[0], *quiet, *words[1:]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def installed_bytes(folder: Path) -> int:
    """What the files of a folder take."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
