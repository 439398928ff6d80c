"""Deployments speak of options that are there; their pages do too, see tests/docs/test_commands.py."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.deploy.commands import check_words

ROOT = Path(__file__).parents[2]


def test_unknown_words_are_noticed():
    with pytest.raises(Exception, match="--nonsense"):
        check_words(["serve", "spec.toml", "--nonsense"])


def test_the_script_for_devices_is_sound():
    path = ROOT / "examples/deploy/devices.sh"
    assert path.stat().st_mode & 0o100
    assert subprocess.run(["sh", "-n", path]).returncode == 0
    line = re.search(r"fedfleet (device .*) &", path.read_text())
    assert line and check_words(shlex.split(line[1].replace('"$client"', "0")))["client"] == 0
