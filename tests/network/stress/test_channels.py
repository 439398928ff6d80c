import asyncio

from fedfleet.network.stress.channels import Target, channel_to, credentials_for
from tests.network.stress.echo import Echo


def test_without_a_certificate_there_is_no_tls():
    assert credentials_for("", "") is None


def test_every_channel_is_a_connection_of_its_own():
    async def run():
        server, address = await Echo(1, 1, 400).serve()
        port = int(address.rpartition(":")[2])
        channels = [channel_to(Target(address)) for _ in range(3)]
        await asyncio.gather(*(channel.channel_ready() for channel in channels))
        result = connections(port)
        await asyncio.gather(*(channel.close() for channel in channels))
        await server.stop(0)
        return result

    assert asyncio.run(run()) == 3


def connections(port):
    """How many established connections a local port has accepted."""
    result = 0
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(name) as table:
            for line in list(table)[1:]:
                local, state = line.split()[1], line.split()[3]
                result += int(local.rpartition(":")[2], 16) == port and state == "01"
    return result
