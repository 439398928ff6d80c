"""The page of the model description names every operation, with every setting."""

import re
from pathlib import Path

import pytest

from fedfleet.tasks.description.format import OPERATIONS

PAGE = (Path(__file__).parents[2] / "docs/reference/model-description.md").read_text()


def rows():
    """For each operation of the page's table, its settings."""
    found = {}
    for line in PAGE.partition("## Operations")[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].startswith("`"):
            for name in re.findall(r"`(\w+)`", cells[0]):
                assert name not in found, name
                found[name] = set(re.findall(r"`(\w+)`", cells[2]))
    return found


def test_the_page_has_every_operation_and_no_other():
    assert rows().keys() == OPERATIONS.keys()


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_the_page_has_every_setting(name):
    assert rows()[name] == OPERATIONS[name][2]
