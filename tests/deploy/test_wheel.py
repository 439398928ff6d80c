"""The wheel: the whole package, its data and nothing else, and it runs where no checkout is."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SPEC = '[task]\nuse = "digits_mlp"\n[world]\nclients = 10\n[pace]\ncohort = 3\n[stop]\nrounds = 2\n'

pytestmark = pytest.mark.slow


def pip(*words):
    """pip of this environment, which asks no other machine for anything."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words[:1], "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", *words[1:]],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of a copy of the checkout, since a build leaves folders behind."""
    at = tmp_path_factory.mktemp("wheel")
    source = at / "source"
    shutil.copytree(ROOT / "fedfleet", source / "fedfleet", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests/deploy", source / "tests/deploy", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", PROJECT["readme"], "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    pip("wheel", "--no-build-isolation", "--wheel-dir", at / "dist", source)
    (result,) = (at / "dist").iterdir()
    return result


@pytest.fixture(scope="module")
def fedfleet(wheel, tmp_path_factory):
    """The command of an installed wheel, in an empty folder; what it depends on is that of this environment."""
    target, empty = tmp_path_factory.mktemp("installed"), tmp_path_factory.mktemp("empty")
    pip("install", "--target", target, wheel)

    def run(*words, program=("-m", "fedfleet")):
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"PYTHONPATH": str(target)}
        done = subprocess.run([sys.executable, *program, *words], cwd=empty, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run(program=("-c", "import fedfleet; print(fedfleet.__file__)")).startswith(str(target))
    run.folder = empty
    return run


def test_it_holds_the_package_with_its_data_and_nothing_else(wheel):
    there = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = ROOT / "fedfleet"
    assert there == {f"fedfleet/{path.relative_to(package)}" for path in package.rglob("*") if path.is_file()} - {
        f"fedfleet/{path.relative_to(package)}" for path in package.rglob("__pycache__/*")
    }
    assert {Path(name).suffix for name in there} >= {".py", ".toml", ".css", ".js", ".json", ".safetensors", ".typed"}


def test_it_says_what_it_is(wheel):
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA"))
    head, _, readme = metadata.partition("\n\n")
    assert f"\nSummary: {PROJECT['description']}\n" in head
    assert "\nLicense-Expression: Apache-2.0\n" in head
    assert all(f"\nProvides-Extra: {extra}\n" in f"{head}\n" for extra in PROJECT["optional-dependencies"])
    assert readme.strip() == (ROOT / PROJECT["readme"]).read_text().strip()
    assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())


def test_it_runs_outside_the_checkout(fedfleet):
    assert "Usage: fedfleet demo" in fedfleet("demo", "--help")
    assert "biasprompt" in fedfleet("list", "algorithms")


@pytest.mark.soak
def test_every_kind_of_its_data_is_read_where_it_is_installed(fedfleet):
    (fedfleet.folder / "a.toml").write_text(SPEC)
    assert json.loads(fedfleet("run", "a.toml", "--out", "a", "--json"))["rounds"] == 2
    assert "<style" in (fedfleet.folder / "a/report.html").read_text()
    fedfleet("sample", "devices", "--sampler", "dpgmm", "--base", "builtin", "--clients", "5", "--out", "devices.json")
    (fedfleet.folder / "frozen.toml").write_text(SPEC.replace("digits_mlp", "digits_vit") + '[algorithm]\nuse = "biasprompt"\n')
    assert json.loads(fedfleet("run", "frozen.toml", "task.backbone=builtin", "--out", "frozen", "--json"))["rounds"] == 2
    fedfleet("demo", "--out", "demo")
    assert (fedfleet.folder / "demo/index.html").exists()
