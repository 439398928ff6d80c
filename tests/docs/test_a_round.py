"""The page that follows a round names modules and functions that are there, in the files that its links lead to."""

import re
from importlib import import_module
from importlib.util import find_spec

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "docs/explanation/a-round.md"
LINKS = re.findall(r"\[`([a-z_.]+(?:\.[A-Za-z_]+)?)`\]\(([^)]+)\)", PAGE.read_text())


def test_the_page_has_links_to_code():
    assert len(LINKS) > 15


@pytest.mark.parametrize(("name", "target"), [(n, t) for n, t in LINKS if "." in n])
def test_a_name_is_in_the_file_that_its_link_leads_to(name, target):
    path = (PAGE.parent / target).resolve()
    module = "fedfleet." + ".".join(path.relative_to(ROOT / "fedfleet").with_suffix("").parts)
    if f"fedfleet.{name}" == module:
        assert find_spec(module)
        return
    home, _, attribute = f"fedfleet.{name}".rpartition(".")
    assert home == module and hasattr(import_module(module), attribute)
