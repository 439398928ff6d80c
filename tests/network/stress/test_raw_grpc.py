import socket

from fedfleet.network.stress.raw_grpc import Raw, raw_rates, reserve_port


def test_both_forms_are_measured():
    result = raw_rates(Raw(servers=1, generators=1, in_flight=4, nbytes=2_000_000, seconds=0.1, channels=1))
    assert set(result) == {"unary", "stream"}
    assert all(rate.per_second > 1 and rate.cpu_ms > 0 for rate in result.values())


def test_a_reserved_port_can_be_shared_and_does_not_listen():
    with reserve_port() as kept, socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(kept.getsockname())
        with socket.socket() as caller:
            assert caller.connect_ex(kept.getsockname()) != 0
