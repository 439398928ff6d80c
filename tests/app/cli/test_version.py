"""`fedfleet version`."""

import json

import fedfleet as package


def test_the_version_is_the_packages(fedfleet):
    assert fedfleet("version") == (0, f"fedfleet {package.__version__}\n", "")
    assert json.loads(fedfleet("version", "--json")[1]) == {"version": package.__version__}
