"""`fedfleet device`: what it refuses; that it works is seen with `fedfleet serve`."""

from tests.app.specs import refused


def test_a_device_needs_a_client_and_an_address(fedfleet):
    refused(fedfleet("device"), "--client")
    refused(fedfleet("device", "--client", 0, "--server", "nowhere"), "HOST:PORT")
