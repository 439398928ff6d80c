"""The demo's second page."""

from fedfleet.app.demo.users import METHODS
from fedfleet.app.pages.demo_users import users_page


def test_methods_are_compared_and_one_exchange_is_drawn(tiny_run):
    page = users_page(dict.fromkeys(METHODS, tiny_run))
    for name, (text, _) in METHODS.items():
        assert f"<td>{name}</td>" in page
        assert text.replace("'", "&#x27;") in page
    assert page.count('role="img"') == 5
    assert page.count(">device 4<") == 1, "five devices"
    assert 'href="report.html"' in page
