"""The documentation in a browser: nothing is asked of the network, nothing overflows a phone."""

import pytest

from tests.docs.test_site import site  # noqa: F401


@pytest.mark.soak
@pytest.mark.parametrize(("width", "dark"), [(1100, False), (390, False), (390, True)])
def test_the_site_can_be_read(site, look, width, dark):  # noqa: F811
    for page in ("docs/index", "README", "docs/tutorial", "docs/how-to/compare", "docs/reference/python"):
        sight = look((site / f"{page}.html").as_uri(), width=width, dark=dark)
        assert sight.faults() == [], page
