"""The URL of the page: a name that the certificate has, and a token that no server's log sees."""

from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from fedfleet.app.runs.join_url import certificate_name, join_url, qr_lines, url_lines
from fedfleet.network.security.certificates import CertificateRequest, make_certificates
from fedfleet.network.security.tls import ServerFiles


@pytest.mark.parametrize(
    ("hosts", "name"), [(["localhost", "fleet.example"], "fleet.example"), (["localhost"], "localhost"), (["192.0.2.1"], "")]
)
def test_the_name_is_one_of_the_certificate(hosts, name, tmp_path):
    made = make_certificates(tmp_path, CertificateRequest(hosts=hosts), datetime.now(UTC))
    assert certificate_name(made.certificate) == name
    url = urlsplit(join_url("0.0.0.0:8443", ServerFiles(made.certificate, made.key), "fft_secret"))
    assert (url.scheme, url.port, url.path, url.query, url.fragment) == ("https", 8443, "/join", "", "token=fft_secret")
    assert url.hostname and url.hostname != "0.0.0.0" and (not name or url.hostname == name)


def test_a_name_that_was_given_stays():
    assert join_url("fleet.example:8443", None, "") == "http://fleet.example:8443/join"


def test_a_person_sees_the_url_and_a_square_of_blocks():
    lines = url_lines("https://fleet.example:8443/join#token=fft_x", {"uses": 5, "id": "abc"})
    assert "up to 5 browsers" in lines[0] and "#token=fft_x" in lines[0] and "abc" in lines[0]
    code = qr_lines("https://fleet.example:8443/join#token=fft_x")
    assert lines[1:] == code and len(code) > 10 and len({len(line) for line in code}) == 1
