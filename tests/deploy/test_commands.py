"""Deployments and their pages speak of options that are there."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.deploy.commands import check_words

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / f"docs/how-to/{name}.md" for name in ("serve", "security", "deploy", "operate")),
    ROOT / "examples/deploy/README.md",
]


def commands_in(text):
    """Every `fedfleet ..` of the fenced blocks of a page, a command over several lines as one."""
    for block in re.findall(r"^```(?:sh)?\n(.*?)^```", text, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.match(r"\s*(?:\$ )?fedfleet (.*?)(?:\s[&>|#].*)?$", line)
            if found:
                yield shlex.split(found[1])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.parent.name + "/" + p.name)
def test_every_command_of_a_page_is_understood(page):
    found = list(commands_in(page.read_text()))
    assert found
    for words in found:
        check_words(words)


def test_unknown_words_are_noticed():
    with pytest.raises(Exception, match="--nonsense"):
        check_words(["serve", "spec.toml", "--nonsense"])


def test_the_script_for_devices_is_sound():
    path = ROOT / "examples/deploy/devices.sh"
    assert path.stat().st_mode & 0o100
    assert subprocess.run(["sh", "-n", path]).returncode == 0
    line = re.search(r"fedfleet (device .*) &", path.read_text())
    assert line and check_words(shlex.split(line[1].replace('"$client"', "0")))["client"] == 0
