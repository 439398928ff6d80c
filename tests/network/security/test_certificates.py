"""Certificates for development: keys private, addresses as addresses, the authority used again."""

import os
import stat
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from fedfleet.core.errors import BadInput
from fedfleet.network.security.certificates import CertificateRequest, make_certificates, utc_now

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def read(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def names(path):
    return read(path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def test_keys_are_private_and_the_folder_too(tmp_path):
    old = os.umask(0)
    try:
        made = make_certificates(tmp_path / "new", CertificateRequest(clients=["phone-1"]), NOW)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
    keys = {name for name in modes if name.endswith(".key")}
    assert keys == {"ca.key", "server.key", "phone-1.key"} and {modes[name] for name in keys} == {0o600}
    assert set(modes) - keys == {"ca.pem", "server.pem", "phone-1.pem"} and len(made.written) == 6


def test_hosts_are_names_or_addresses(tmp_path):
    made = make_certificates(tmp_path, CertificateRequest(["fleet.example.org", "10.1.2.3", "[::1]", "*.lab"]), NOW)
    said = names(made.certificate)
    assert said.get_values_for_type(x509.DNSName) == ["fleet.example.org", "*.lab"]
    assert [str(a) for a in said.get_values_for_type(x509.IPAddress)] == ["10.1.2.3", "::1"]


def test_the_authority_signs_but_nobody_below_it_does(tmp_path):
    made = make_certificates(tmp_path, CertificateRequest(clients=["a"], days=10), NOW)
    ca = read(made.ca)
    assert ca.extensions.get_extension_for_class(x509.BasicConstraints).value == x509.BasicConstraints(True, 0)
    for path, use in ((made.certificate, "serverAuth"), (made.clients["a"][0], "clientAuth")):
        below = read(path)
        below.verify_directly_issued_by(ca)
        assert not below.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        (result,) = below.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert result._name == use
        assert below.not_valid_before_utc < NOW < below.not_valid_after_utc == NOW + timedelta(days=10)


def test_what_is_there_is_kept(tmp_path):
    first = make_certificates(tmp_path, CertificateRequest(), NOW)
    before = {path: path.read_bytes() for path in first.written}
    later = make_certificates(tmp_path, CertificateRequest(clients=["b"]), NOW)
    assert {path.name for path in later.written} == {"b.pem", "b.key"}
    assert all(path.read_bytes() == data for path, data in before.items())
    renewed = make_certificates(tmp_path, CertificateRequest(["other"], renew=True), NOW)
    assert {path.name for path in renewed.written} == {"server.pem", "server.key"}
    read(renewed.certificate).verify_directly_issued_by(read(first.ca))
    assert names(renewed.certificate).get_values_for_type(x509.DNSName) == ["other"]


@pytest.mark.parametrize("host", ["", "a b", "https://x", "x/y", "-x", "ö", "x:80", "a\n"])
def test_hosts_that_are_none_are_refused(tmp_path, host):
    with pytest.raises(BadInput, match="--host"):
        make_certificates(tmp_path / "new", CertificateRequest([host]), NOW)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["", "ca", "server", "../x", "a/b", ".x", "x" * 64, "a\n"])
def test_names_that_are_no_files_are_refused(tmp_path, name):
    with pytest.raises(BadInput, match="name of a device's certificate"):
        make_certificates(tmp_path / "new", CertificateRequest(clients=[name]), NOW)


def test_an_authority_that_cannot_sign_is_refused(tmp_path):
    made = make_certificates(tmp_path, CertificateRequest(), NOW)
    with pytest.raises(BadInput, match="expired"):
        make_certificates(tmp_path, CertificateRequest(clients=["a"]), NOW + timedelta(days=4000))
    made.ca.write_text("no certificate")
    with pytest.raises(BadInput, match="not a certificate authority"):
        make_certificates(tmp_path, CertificateRequest(clients=["a"]), NOW)
    (tmp_path / "ca.key").unlink()
    with pytest.raises(BadInput, match="not a certificate authority"):
        make_certificates(tmp_path, CertificateRequest(clients=["a"]), NOW)


def test_today_has_a_time_zone():
    assert utc_now().tzinfo is UTC
