"""A server that only speaks the protocol: rounds over all clients, a model, receipts; it can be busy, refuse or hold.

What it remembers of each report is what a real server would check: so a test can see that a generator is honest.
"""

import asyncio
from collections import Counter
from contextlib import suppress

import grpc

from fedfleet.core.tensor_format import pack_tree
from fedfleet.network.protocol.fleet_pb2 import Answer, Blob, CheckIn, FetchRequest, Later, Over, Receipt, Report, Work
from fedfleet.network.protocol.frames import (
    CHUNK,
    INLINE_BYTES,
    SERVICE,
    crc32c,
    decode_frame,
    encode_frame,
    parse_message,
)
from fedfleet.network.stress.channels import SERVER
from fedfleet.network.stress.stress_plan import dummy_params


class Echo:
    """Rounds over all clients, each of which takes one task a round."""

    def __init__(self, clients, rounds, nbytes, *, next_work=False, trouble=()):
        self.clients, self.rounds, self.next_work = clients, rounds, next_work
        self.model = pack_tree(dummy_params(nbytes))
        self.blob = Blob(name="m", nbytes=len(self.model), crc32c=crc32c(self.model))
        self.inline = len(self.model) <= INLINE_BYTES
        self.round, self.given, self.handed = 0, {}, set()
        self.reports, self.secrets, self.calls = Counter(), {}, Counter()
        self.trouble = list(trouble)
        self.opened = asyncio.Event()

    def answer(self, client):
        if self.round == self.rounds:
            return Answer(over=Over(reason="all rounds are done"))
        if client in self.handed:
            return None
        task = self.given.setdefault(client, self.round * self.clients + client)
        work = Work(task=task, nonce=b"n%d" % task, model=self.blob, inline=self.inline)
        return Answer(work=work)

    def payload(self, answer):
        return self.model if answer is not None and answer.HasField("work") and self.inline else b""

    async def check(self, request, context):
        said = parse_message(request, CheckIn)
        self.calls["Check"] += 1
        self.secrets[said.caller.client] = said.caller.secret
        if self.trouble and self.trouble[0] == "check":
            self.trouble.pop(0)
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        answer = self.answer(said.caller.client)
        if answer is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.opened.wait(), 1.0)
            answer = self.answer(said.caller.client) or Answer(later=Later(seconds=0.01))
        return encode_frame(answer, self.payload(answer))

    def receive(self, report, payload):
        """The receipt of a whole report."""
        self.calls["Hand"] += 1
        if self.trouble and self.trouble[0] in ("BUSY", "RETRY", "UNWANTED"):
            return encode_frame(Receipt(status=Receipt.Status.Value(self.trouble.pop(0)), seconds=0.01))
        assert report.nonce == b"n%d" % report.task
        assert (len(payload), crc32c(bytes(payload))) == (report.nbytes, report.crc32c)
        client = report.caller.client
        assert report.task == self.given.pop(client)
        self.reports[report.task] += 1
        self.handed.add(client)
        answer = None
        if len(self.handed) == self.clients:
            self.round, self.handed = self.round + 1, set()
            self.opened.set()
            self.opened = asyncio.Event()
            answer = self.answer(client) if self.next_work else None
        answer = answer or Answer(later=Later(seconds=0.0))
        return encode_frame(Receipt(next=answer), self.payload(answer))

    async def hand(self, request, context):
        return self.receive(*decode_frame(request, Report))

    async def hand_stream(self, requests, context):
        report, parts = None, []
        async for piece in requests:
            if report is None:
                report = decode_frame(piece, Report)[0]
            else:
                parts.append(piece)
        return self.receive(report, b"".join(parts))

    async def fetch(self, request, context):
        ask = parse_message(request, FetchRequest)
        assert ask.name == self.blob.name
        self.calls["Fetch"] += 1
        for at in range(ask.offset, len(self.model), CHUNK):
            yield self.model[at : at + CHUNK]

    async def serve(self, port=0):
        server = grpc.aio.server(options=SERVER)
        handlers = {
            "Check": grpc.unary_unary_rpc_method_handler(self.check),
            "Hand": grpc.unary_unary_rpc_method_handler(self.hand),
            "HandStream": grpc.stream_unary_rpc_method_handler(self.hand_stream),
            "Fetch": grpc.unary_stream_rpc_method_handler(self.fetch),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        at = server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        return server, f"127.0.0.1:{at}"
