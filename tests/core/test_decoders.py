"""A decoder of stacks is the decoder of one report, too."""

import numpy as np

from fedfleet.core.decoders import Decoder
from fedfleet.core.records import Context, Report, ServerState


def test_called_it_decodes_one_report():
    server, context = ServerState({}), Context(0, 1.0, 0)
    doubled = Decoder(
        lambda s, r, c: Report(r.task, r.client, {"w": 2 * r.update["w"]}, r.weight, r.stats), lambda *given: ({}, None)
    )
    report = Report(3, 0, {"w": np.ones(2)}, 1.0, {})
    assert doubled(server, report, context).update["w"].tolist() == [2.0, 2.0]
    assert doubled.stack(server, {}, [context]) == ({}, None)
