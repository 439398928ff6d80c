"""The Dockerfile copies what is there, installs what there is to install, and does not run as root."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES = re.sub(r"\\\n\s*", " ", (ROOT / "examples/deploy/Dockerfile").read_text()).splitlines()
STEPS = [tuple(line.split(None, 1)) for line in LINES if line and not line.startswith("#")]


def test_what_it_copies_is_there():
    copied = [words.split()[:-1] for step, words in STEPS if step == "COPY" and "--from" not in words]
    assert copied
    for name in (name for names in copied for name in names):
        assert (ROOT / name).exists(), name


def test_what_the_package_needs_to_be_built_is_copied():
    copied = {n for step, words in STEPS if step == "COPY" for n in words.split()[:-1]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"pyproject.toml", project["readme"], "fedfleet"} <= copied


def test_extras_are_declared():
    installed = next(words for step, words in STEPS if step == "RUN" and "pip install" in words)
    extras = re.search(r'"\.\[([\w,]+)\]"', installed)
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras and {"server", "train"} == set(extras[1].split(",")) <= set(declared)


def test_it_runs_as_somebody_who_owns_the_data_and_is_told_to_stop():
    steps = dict(STEPS)
    assert steps["USER"] == "10001:10001" and steps["STOPSIGNAL"] == "SIGTERM"
    assert [step for step, _ in STEPS].index("USER") > [step for step, _ in STEPS].index("FROM")
    last_run = [words for step, words in STEPS if step == "RUN"][-1]
    assert "chown -R fleet:fleet /data" in last_run and steps["VOLUME"] == "/data"
    assert steps["ENTRYPOINT"] == '["fedfleet"]'
