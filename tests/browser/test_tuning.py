"""The page of a search in a browser, in light and dark, wide and on a phone."""

import pytest

from fedfleet.app.pages.search_page import write_tuning
from tests.app.studies.tune.test_search_result import made, row
from tests.browser.test_comparison import lines, seen

pytestmark = pytest.mark.slow


def test_a_search(look, tmp_path):
    rows = [row(i, value=0.5 + i / 30) if i % 3 else row(i, "pruned", rounds=5, early=0.2) for i in range(1, 12)]
    path = write_tuning(made(tmp_path, [row(0, value=0.4, default=True), *rows], place=11))
    assert seen(look, path) == {}
    assert lines(look(path)) >= 8 and lines(look(path, width=390)) >= 8
    assert look(path).page.locator("svg circle").count() > 20
