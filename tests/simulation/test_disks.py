"""A full disk is one sentence, and loses nothing; `make soak` tries real disks of fifteen sizes."""

import pytest

from fedfleet.core.registry import register
from fedfleet.store.journal import digest_of
from tests.simulation.disks import FULL, attempt
from tests.simulation.killing import controlled

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_files_that_cannot_grow_stop_a_run_in_one_sentence_and_it_goes_on_later(tmp_path):
    register("algorithms", "controlled", controlled)
    assert attempt(tmp_path / "straight") == 0
    digest, full = digest_of(tmp_path / "straight/run.db"), 0
    for size in (100, 5_000, 30_000, 60_000):
        code = attempt(tmp_path / str(size), size)
        full += code == FULL
        assert code in (0, FULL)
        assert attempt(tmp_path / str(size)) == 0
        assert digest_of(tmp_path / str(size) / "run.db") == digest
    assert full >= 3
