"""The checked-in code of the protocol is what protoc makes of proto/, and the two sides agree on its service."""

import re
from pathlib import Path

import pytest

from fedfleet.network.protocol import fleet_pb2, frames

ROOT = Path(__file__).parents[2]
PROTO, MADE = ROOT / "proto", Path("fedfleet/network/protocol")


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """What `make proto` would write now, elsewhere."""
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is of the extra dev")
    out = tmp_path_factory.mktemp("proto")
    files = [str(path) for path in sorted(PROTO.glob("*.proto"))]
    done = protoc.main(["protoc", f"-I{MADE}={PROTO}", f"--python_out={out}", f"--pyi_out={out}", *files])
    assert done == 0
    return out


def test_every_file_of_the_protocol_is_generated_and_nothing_else(generated):
    made = sorted(path.relative_to(generated) for path in generated.rglob("*_pb2*"))
    assert made == sorted(path.relative_to(ROOT) for path in (ROOT / MADE).glob("*_pb2*"))
    assert len(made) == 2 * len(list(PROTO.glob("*.proto")))


@pytest.mark.parametrize("name", [f"{p.stem}_pb2{kind}" for p in sorted(PROTO.glob("*.proto")) for kind in (".py", ".pyi")])
def test_what_is_checked_in_is_what_protoc_makes(generated, name):
    assert (ROOT / MADE / name).read_bytes() == (generated / MADE / name).read_bytes(), "run make proto"


def test_make_proto_knows_every_file():
    (rule,) = re.findall(r"-m grpc_tools\.protoc .*", (ROOT / "Makefile").read_text())
    assert re.findall(r"proto/(\w+\.proto)", rule) == sorted(path.name for path in PROTO.glob("*.proto"))


def test_the_service_has_the_name_that_calls_use():
    (service,) = fleet_pb2.DESCRIPTOR.services_by_name.values()
    assert service.full_name == frames.SERVICE
    assert frames.method_path("Check") == f"/{service.full_name}/Check"
    assert {"Enrol", "Check", "Fetch", "Hand", "HandStream", "Held", "Leave", "Status"} == {m.name for m in service.methods}


def test_no_message_nests_in_itself():
    """What nests in itself could be nested without end; the depth of every message is known beforehand."""

    def depth(kind, above):
        assert kind.full_name not in above, f"{kind.full_name} holds itself"
        inner = [f.message_type for f in kind.fields if f.message_type is not None]
        return 1 + max((depth(k, (*above, kind.full_name)) for k in inner), default=0)

    assert max(depth(kind, ()) for kind in fleet_pb2.DESCRIPTOR.message_types_by_name.values()) <= 8
