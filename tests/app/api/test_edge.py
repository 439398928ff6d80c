"""The verb: what is refused before anything begins; and whether a spec with edges can be served."""

import pytest

from fedfleet.app.api.edge import edge
from fedfleet.app.api.serve import serve
from fedfleet.core.errors import BadInput
from tests.network.edge.people import FEDGS, write_spec


@pytest.fixture
def spec(tmp_path):
    return write_spec(tmp_path, FEDGS, edges=2, each=3, rounds=2)


def test_an_edge_that_cannot_begin_says_so_and_leaves_no_folder(tmp_path):
    store = tmp_path / "edge"
    for wrong, why in (
        ({"listen": "127.0.0.1:50051"}, "both are"),
        ({"listen": "here"}, "HOST:PORT"),
        ({"listen": "0.0.0.0:50061"}, "TLS"),
        ({"upstream": "fleet.example.org:50051"}, "TLS"),
        ({"certificate": tmp_path / "c.pem"}, "--certificate and --key"),
        ({"token": "a", "token_file": tmp_path / "b"}, "only one"),
    ):
        with pytest.raises(BadInput, match=why):
            edge(store=store, **wrong)
    assert not store.exists()


def test_a_spec_with_edges_is_checked_without_serving_it(spec, tmp_path):
    answer = serve(spec, out=tmp_path / "run", check=True)
    assert "can be served" in str(answer)
    for words, options, why in (
        ((), {"evaluate": "devices"}, "edges evaluate no models"),
        (('algorithm.up=["int8"]',), {}, "no codec can compress"),
    ):
        with pytest.raises(BadInput, match=why):
            serve(spec, *words, out=tmp_path / "run", check=True, **options)
    assert not (tmp_path / "run").exists()
