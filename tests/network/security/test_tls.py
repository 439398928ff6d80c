"""TLS on the loopback: 1.3 only, known authorities only, both sides if wanted; nothing in the open without."""

import asyncio
import os
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, closing
from pathlib import Path

import grpc
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.network.security.certificates import CertificateRequest, make_certificates, utc_now
from fedfleet.network.security.tls import (
    ClientFiles,
    ServerFiles,
    client_credentials,
    refuse_open,
    refuse_plain,
    server_credentials,
)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("ours"), CertificateRequest(clients=["phone"]), utc_now())


@pytest.fixture(scope="module")
def strangers(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("strangers"), CertificateRequest(clients=["phone"]), utc_now())


@asynccontextmanager
async def echoing(files):
    async def echo(request, context):
        return request

    server = grpc.aio.server()
    calls = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", calls),))
    port = server.add_secure_port("127.0.0.1:0", server_credentials(files))
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)


async def echoed(address, files):
    async with grpc.aio.secure_channel(address, client_credentials(files)) as channel:
        try:
            return await channel.unary_unary("/test/Echo")(b"hello", timeout=60)
        except grpc.aio.AioRpcError as error:
            return error.code()


def shaken(port, version, ca):
    """The version on which a plain TLS client and a server agree, or None."""
    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection(("127.0.0.1", port), 5) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        ):
            return secure.version()
    except (ssl.SSLError, ConnectionError):
        return None


def plain_files(made):
    return ServerFiles(made.certificate, made.key)


def mutual_files(made):
    return ServerFiles(made.certificate, made.key, made.ca)


def test_a_server_speaks_tls_1_3_and_nothing_older(ours):
    async def tried():
        async with echoing(plain_files(ours)) as port:
            return [
                await asyncio.to_thread(shaken, port, version, ours.ca)
                for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2)
            ]

    assert asyncio.run(tried()) == ["TLSv1.3", None]


@pytest.mark.parametrize(("version", "heard"), [(ssl.TLSVersion.TLSv1_3, True), (ssl.TLSVersion.TLSv1_2, False)])
def test_a_device_speaks_tls_1_3_and_nothing_older(ours, version, heard):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ours.certificate, ours.key)
    context.maximum_version = context.minimum_version = version
    context.set_alpn_protocols(["h2"])
    agreed = threading.Event()

    def serve(listening):
        with listening.accept()[0] as plain:
            plain.settimeout(5)
            try:
                context.wrap_socket(plain, server_side=True).close()
                agreed.set()
            except (OSError, ssl.SSLError):
                pass

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        answer = asyncio.run(echoed(f"127.0.0.1:{listening.getsockname()[1]}", ClientFiles(ours.ca)))
        thread.join()
    assert answer is grpc.StatusCode.UNAVAILABLE  # it is no gRPC server either way
    assert agreed.is_set() == heard


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_names_and_addresses_are_trusted(ours, host):
    async def tried():
        async with echoing(plain_files(ours)) as port:
            return await echoed(f"{host}:{port}", ClientFiles(ours.ca))

    assert asyncio.run(tried()) == b"hello"


def test_unknown_authorities_are_not_trusted(ours, strangers):
    async def tried():
        async with echoing(plain_files(ours)) as port:
            address = f"127.0.0.1:{port}"
            return [await echoed(address, ClientFiles(strangers.ca)), await echoed(address, ClientFiles())]

    assert asyncio.run(tried()) == [grpc.StatusCode.UNAVAILABLE] * 2


def test_a_certificate_for_another_host_is_not_trusted(tmp_path):
    made = make_certificates(tmp_path, CertificateRequest(["10.0.0.1", "elsewhere"]), utc_now())

    async def tried():
        async with echoing(plain_files(made)) as port:
            return await echoed(f"127.0.0.1:{port}", ClientFiles(made.ca))

    assert asyncio.run(tried()) is grpc.StatusCode.UNAVAILABLE


def test_a_server_that_wants_certificates_takes_only_those_of_its_authority(ours, strangers):
    async def tried():
        async with echoing(mutual_files(ours)) as port:
            address = f"127.0.0.1:{port}"
            known, unknown = ours.clients["phone"], strangers.clients["phone"]
            server = (ours.certificate, ours.key)  # signed by the same authority, but not for callers
            return [
                await echoed(address, files)
                for files in (ClientFiles(ours.ca), *(ClientFiles(ours.ca, *pair) for pair in (known, unknown, server)))
            ]

    no = grpc.StatusCode.UNAVAILABLE
    assert asyncio.run(tried()) == [no, b"hello", no, no]


def test_a_plain_caller_is_not_answered(ours):
    async def tried():
        async with echoing(plain_files(ours)) as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            with pytest.raises(grpc.aio.AioRpcError):
                await channel.unary_unary("/test/Echo")(b"hello", timeout=60)

    asyncio.run(tried())


def test_renewed_certificates_are_taken_up_without_a_restart(tmp_path):
    made, strangers = (make_certificates(tmp_path / name, CertificateRequest(), utc_now()) for name in ("old", "new"))

    async def tried():
        async with echoing(plain_files(made)) as port:
            address, files = f"127.0.0.1:{port}", ClientFiles(strangers.ca)
            before = await echoed(address, files)
            os.replace(strangers.certificate, made.certificate)
            half = await echoed(address, ClientFiles(made.ca))  # the key does not fit yet: the old ones go on
            os.replace(strangers.key, made.key)
            return before, half, await echoed(address, files)

    assert asyncio.run(tried()) == (grpc.StatusCode.UNAVAILABLE, b"hello", b"hello")


def test_files_that_cannot_be_used_are_refused_in_words(ours, strangers, tmp_path):
    def wrong(certificate, key, words, ca=None):
        with pytest.raises(BadInput, match=words) as result:
            server_credentials(ServerFiles(certificate, key, ca))
        assert "PRIVATE KEY" not in str(result.value)

    text = tmp_path / "text"
    text.write_text("no PEM")
    text.chmod(0o600)
    wrong(tmp_path / "none", ours.key, "cannot be read .*fedfleet certificate")
    wrong(ours.certificate, tmp_path / "none", "cannot be read")
    wrong(text, ours.key, "cannot be used")
    wrong(ours.certificate, text, "cannot be used")
    wrong(ours.certificate, ours.ca.with_name("ca.key"), "cannot be used")
    wrong(ours.certificate, ours.key, "does not hold the certificates of an authority", text)
    loose = tmp_path / "loose.key"
    loose.write_bytes(ours.key.read_bytes())
    loose.chmod(0o644)
    wrong(ours.certificate, loose, "chmod 600")
    with pytest.raises(BadInput, match="--certificate and --key"):
        client_credentials(ClientFiles(ours.ca, ours.certificate))
    with pytest.raises(BadInput, match="does not hold the certificates of an authority"):
        client_credentials(ClientFiles(text))


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.168.1.2", "example.org", "128.0.0.1", "localhost.example.org"])
def test_nothing_listens_or_calls_in_the_open_without_tls(host):
    for refuse in (refuse_open, refuse_plain):
        refuse(f"{host}:50051", True)
        with pytest.raises(BadInput, match="without TLS"):
            refuse(f"{host}:50051", False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "[::1]", "localhost", "LOCALHOST"])
def test_this_machine_may_talk_to_itself(host):
    refuse_open(f"{host}:0", False)
    refuse_plain(f"{host}:50051", False)


def test_it_does_not_work_where_tls_1_2_could():
    """Who loads gRPC first would get 1.2 as well: that is said, not hidden."""
    code = (
        "import grpc; from pathlib import Path; from fedfleet.network.security.tls import *\n"
        "try: client_credentials(ClientFiles())\n"
        "except Exception as wrong: print(wrong)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "GRPC_SSL_CIPHER_SUITES"}
    words = {"capture_output": True, "text": True, "cwd": Path(__file__).parents[3], "env": environment}
    assert "would accept TLS 1.2" in subprocess.run([sys.executable, "-c", code], **words).stdout
    assert subprocess.run([sys.executable, "-c", "import fedfleet.network; " + code], **words).stdout == ""
